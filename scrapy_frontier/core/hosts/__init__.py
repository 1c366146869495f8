"""Decides when a host may be asked: its queue and clock, the order of hosts, delays, cooldowns, sites."""
