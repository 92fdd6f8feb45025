"""How settings vary over a model: by layer, by module, by name."""
