"""How sure a fitted field is: Laplace approximation of its posterior, and the evidence."""
