"""Runs that compare step-size and subspace-weight ``auto`` with a grid."""
