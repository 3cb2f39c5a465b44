"""What answers about labels are made of: their form, how labels are chosen, and the spans that labels write."""
