"""When a host may be asked: its queue and clock, turns, delays, cooldowns, what its site said."""
