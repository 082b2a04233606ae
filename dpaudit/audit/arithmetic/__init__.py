"""What floating-point arithmetic and time give away."""
