"""Control: sessions, personas, participation, grants, turns, approvals, the agents' tools. No endpoint accepts SQL."""
