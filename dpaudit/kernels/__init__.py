"""How noise is drawn, its density, and the queries it is scaled to."""
