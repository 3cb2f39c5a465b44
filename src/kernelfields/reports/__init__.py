"""What people look at: progress of a fit, plots, HTML views."""
