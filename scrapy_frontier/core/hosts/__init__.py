"""When a host may be asked: its queue and clock, host_queue, delays, cooldowns, what its site said."""
