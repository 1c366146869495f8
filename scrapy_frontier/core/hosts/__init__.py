"""When a host may be asked: its queue and clock, turns, delays, rests, and what its site said."""
