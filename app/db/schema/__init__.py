"""The tables, a module per area. `tables` names all of them."""
