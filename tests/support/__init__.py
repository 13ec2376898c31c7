"""What tests share: real programs to run against, and their pytest fixtures."""
