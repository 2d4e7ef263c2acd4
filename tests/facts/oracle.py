"""A second, naive reading of the same rules: whole lists, several passes, plain JSON. It shares no code with `facts`.

It answers, of one conversation's records, what the tables of turns, messages, calls and usage hold, as plain tuples.
"""

import json

CODES = {
    1: "conversation_opened", 2: "dispatch_intent", 3: "turn_start", 4: "turn_complete", 16: "message", 17: "model_call",
    18: "usage", 19: "tool_call", 20: "tool_result", 32: "approval_requested", 33: "approval_decided", 36: "refusal",
}  # fmt: skip
MAY = {
    "control": {1, 2, 3, 4, 16, 33, 36},
    "harness": {16, 17, 18, 19, 20},
    "edge": {19, 20, 32, 33, 36},
    "importer": {1, 3, 4, 16, 17, 18, 19, 20, 32, 33, 36},
}


class Oracle:
    def __init__(self, records, roles):
        self.partition = records[0].partition if records else "conv-a"
        self.imported = False
        self.events = []  # (position, code, body) of what its author may say
        for record in records:
            role = roles.get(record.key_id)
            body = json.loads(record.payload) if record.event_type in CODES else None
            if body is None or not self.may(role, record):
                continue
            if record.position == 1 and record.event_type == 1:
                self.imported = body["origin"] != "live"
            self.events.append((record.position, record.event_type, body))
        self.started = self.first(3)
        self.ended = {}
        for position, code, body in self.events:
            turn = body["turn"]["turn_id"] if code == 4 and self.mine(body) else None
            if turn in self.started and self.started[turn] < position and turn not in self.ended:
                self.ended[turn] = position

    def may(self, role, record):
        if role == "importer":
            first = record.position == 1 and record.event_type == 1
            return (
                self.partition.startswith("conv-imp-") and (self.imported or first) and record.event_type in MAY[role]
            )
        if self.partition.startswith("conv-imp-") and role != "control":
            return False
        return record.event_type in MAY.get(role, ())

    def mine(self, body):
        return body["turn"]["conversation_id"] in (self.partition, self.partition[len("conv-") :])

    def first(self, code):
        found = {}
        for position, kind, body in self.events:
            if kind == code and self.mine(body):
                found.setdefault(body["turn"]["turn_id"], position)
        return found

    def dispatch(self, name, before):
        """The turn of a dispatch, as mapped first, before a position."""
        for position, code, body in self.events:
            if code in (2, 3) and position < before and self.mine(body) and body.get("dispatch_id") == name:
                repeated_start = code == 3 and self.started[body["turn"]["turn_id"]] != position
                if not repeated_start:
                    return body["turn"]["turn_id"]
        return None

    def turn_of(self, position, code, body):
        """The turn in whose open span an event stands, or None."""
        turn = body.get("turn_id")
        if code >= 19 and body.get("dispatch_id") is not None:
            mapped = self.dispatch(body["dispatch_id"], position)
            turn = mapped if turn in (None, mapped) else None
        if turn in self.started and self.started[turn] < position < self.ended.get(turn, float("inf")):
            return turn
        return None

    def committed(self, *codes):
        """(position, turn, body) of the events of these types in committed turns."""
        found = []
        for position, code, body in self.events:
            if code in codes:
                turn = self.turn_of(position, code, body)
                if turn in self.ended:
                    found.append((position, turn, body))
        return found

    def turns(self):
        in_order = sorted(self.ended, key=self.started.get)
        return [(self.started[turn], turn, number + 1) for number, turn in enumerate(in_order)]

    def last_by(self, key, *codes):
        """Of several events with one key in one turn the last."""
        found = self.committed(*codes)
        return [
            (position, turn, body)
            for position, turn, body in found
            if not any(p > position and t == turn and b[key] == body[key] for p, t, b in found)
        ]

    def messages(self):
        return [
            (position, turn, body["message_id"], "\n\n".join(b["text"] for b in body.get("blocks", [])) or None)
            for position, turn, body in self.last_by("message_id", 16)
        ]

    def usage(self):
        calls = self.committed(17, 18)
        rows = []
        for position, turn, body in self.last_by("call_id", 18):
            sharing = {t for _, t, b in calls if b["call_id"] == body["call_id"]}
            earlier = [t for t in sharing if self.ended[t] < self.ended[turn]]
            rows.append((position, turn, self.name(body["call_id"], len(earlier) + 1), body.get("input_tokens")))
        return rows

    def tool_calls(self):
        named = self.named()
        kinds = {19: "call", 20: "result"}
        return sorted(
            (position, turn, named[position], kinds[code])
            for code in kinds
            for position, turn, _ in self.committed(code)
        )

    def requests(self):
        named = self.named()
        return [(position, named[position]) for position, _, _ in self.committed(32)]

    def named(self):
        """Which use of its native id each call, result and request is of: one list of uses, searched anew each time."""
        found = [
            (self.ended[turn], code != 19, position, turn, code, body.get("tool_call_id") or body["request_id"])
            for code in (19, 20, 32)
            for position, turn, body in self.committed(code)
        ]
        uses, names = [], {}  # a use: native id, number, turn, what was said of it
        for _, _, position, turn, code, native in sorted(found):
            mine = [use for use in uses if use[0] == native]
            fitting = [use for use in mine if code != 19 and use[2] == turn and code not in use[3]]
            earlier = [use for use in mine if code == 20 and use[2] != turn and 19 in use[3] and 20 not in use[3]]
            use = (fitting or earlier or [None])[0]
            if use is None:
                use = (native, len(mine) + 1, turn, set())
                uses.append(use)
            use[3].add(code)
            names[position] = self.name(native, use[1])
        return names

    def name(self, native, number):
        return f"{self.partition}:{native}" + (f"#{number}" if number > 1 else "")

    def approvals(self):
        """(position, turn, outcome): the first decision after a request, in its turn, that no earlier request took."""
        requests = self.committed(32)
        taken, outcomes = set(), {}
        for position, turn, body in self.committed(33):
            for asked, of_turn, request in requests:
                if (
                    asked < position
                    and of_turn == turn
                    and request["request_id"] == body["request_id"]
                    and asked not in taken
                ):
                    taken.add(asked)
                    outcomes[asked] = body["outcome"]
                    break
        return [(position, turn, outcomes.get(position)) for position, turn, _ in requests]

    def refusals(self):
        return [position for position, code, _ in self.events if code == 36]
