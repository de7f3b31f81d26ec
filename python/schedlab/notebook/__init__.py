"""What `import schedlab` offers to notebooks and scripts, and what comes of it."""
