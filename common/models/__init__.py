"""The built-in objectives: linear models, a network of one hidden layer and a quadratic; ``table`` builds them."""
