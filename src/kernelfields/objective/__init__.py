"""The negative log-posterior: potentials, likelihoods, designs, bounds and certificates."""
