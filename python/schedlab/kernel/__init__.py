"""Real kernels: images, virtual machines, policies as BPF objects, what guests tell."""
