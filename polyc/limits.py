"""Every bound on foreign input, buffers, queues, recursion and row counts, with its unit and reason."""

from typing import Final

# Journal
EVENTS_PER_APPEND_MAX: Final = 1000  # journal.md, "author sig": one signature covers 1..1000 events
EVENTS_PER_IMPORT_APPEND_MAX: Final = 64  # ruling 8: a receipt carries the following headers of its append
IMPORT_APPEND_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024  # two payloads of the largest size; a group is a few of these
PAYLOAD_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024  # larger content goes by digest to blobs/ (ruling 12)
APPEND_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024  # one append must fit in memory several times over
STORED_APPEND_SIZE_BYTES_MAX: Final = (
    APPEND_SIZE_BYTES_MAX + EVENTS_PER_APPEND_MAX * 512
)  # the same with headers and salts
COMPRESSED_SIZE_BYTES_MIN: Final = 2048  # smaller bodies: a page of disk saved costs more time than it is worth
RECORDED_AT_SKEW_US_MAX: Final = 5 * 60 * 1_000_000  # ruling 1
PARTITION_NAME_BYTES_MAX: Final = 255  # one length byte in the header
PARTITIONS_OPENED_PER_S: Final = 1_000.0  # ten times what an import opens; more is a runaway author, kept forever
PARTITIONS_OPENED_BURST: Final = 20_000
APPEND_QUEUE_MAX: Final = 4096  # appends that wait for their commit; beyond it: RESOURCE_EXHAUSTED

# Events
INLINE_TEXT_BYTES_MAX: Final = 1024 * 1024  # ruling 12: beyond this a row says how to get the text
JSON_DEPTH_MAX: Final = 100  # nested brackets in foreign JSON, before any parser
DOCUMENT_SIZE_BYTES_MAX: Final = 128 * 1024 * 1024  # a file that is one JSON value is held as a whole
LINE_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024  # A16: 24 MB lines exist; larger ones are quarantined

# Folds
ANOMALY_KINDS_MAX: Final = 512  # rows of a partition's anomalies; kinds are few, numbers of unknown types need not be
RECEIPT_SIZE_CHARS_MAX: Final = 16 * 1024  # a receipt is a few hundred characters; checked before any decoding

# Grants
GRANT_SIZE_BYTES_MAX: Final = 4096  # checked before any decoding
GRANT_LIFETIME_S_MAX: Final = 300
GRANTS_REMEMBERED_MAX: Final = 1024  # by an edge, so that a bearer's signature is not verified at every request
GRANT_LEEWAY_S: Final = 5  # one leeway for clocks of Control and the edge (D03, D20)
GRANT_SCOPE_INLINE_MAX: Final = 32  # more conversations go by reference (ruling 29)
REVOCATION_AGE_S_MAX: Final = 10  # ruling 30
REVOCATIONS_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024  # entries live for one grant's life: some 50 000 of them
KEY_BUNDLE_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024  # every key event ever, about 700 bytes each
INDEX_MAX: Final = 2**53 - 1  # seconds, indexes and counts in JSON that any parser reads exactly

# Statements
STATEMENT_SIZE_BYTES_MAX: Final = 32 * 1024
STATEMENT_DEPTH_MAX: Final = 100
STATEMENT_AUDIT_BYTES_MAX: Final = 8 * 1024  # the audit keeps the hash of all and this much of the text
ROW_LIMIT_DEFAULT: Final = 10_000
ROW_LIMIT_MAX: Final = 1_000_000
RESULT_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
QUERY_DEADLINE_S: Final = 30.0
PARSE_DEADLINE_S: Final = 3.0  # the first parser needs < 0.5 s for 32 KiB; beyond it the worker is killed
KILL_AFTER_DEADLINE_S: Final = 1.0  # the last rung of the deadline ladder (B20)
ENGINE_MEMORY_BYTES_MAX: Final = 1 << 30  # DuckDB's memory_limit
WORKER_MEMORY_BYTES_MAX: Final = 3 << 30  # address space beyond a fresh worker's: some functions ignore memory_limit
WORKER_MESSAGE_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024  # one row may fill the result's budget; JSON escapes grow it
BATCH_SIZE_BYTES_TARGET: Final = 1024 * 1024  # frames are cut by bytes (F16)
BATCH_ROWS_MAX: Final = 2048  # the engine's vector
WRITE_DEADLINE_S: Final = 10.0  # a reader that takes no frame for so long is gone (F20)
SCANS_AT_ONCE_MAX: Final = 64  # of one statement's large tables; each is a thread and a pipe of the admitter
SCOPES_REMEMBERED_MAX: Final = 64  # partitions of grants by reference that an edge remembers, of a generation each
QUERY_QUEUE_MAX: Final = 64  # callers waiting for a worker; beyond it: RESOURCE_EXHAUSTED
QUERIES_PER_SUBJECT_MAX: Final = 8  # running and waiting ones of one subject
HEAD_SIZE_BYTES_MAX: Final = 64 * 1024  # of a request at the edge, beside its body: a grant is at most 4 KB
PIPELINED_MAX: Final = 16  # requests of one connection that wait for the one before them; nobody we know pipelines

# Control
BODY_SIZE_BYTES_MAX: Final = 1024 * 1024

# Artifacts
ROW_GROUP_ROWS_MAX: Final = 8_192  # what one conversation's rows are found among (ADR 0017); recorded in each manifest
ROW_GROUP_TEXT_BYTES_MAX: Final = (
    4 * 1024 * 1024
)  # the same: one admitted conversation decompresses at most this much foreign text
PACK_EVENTS_MAX: Final = 262_144  # events whose rows share a base pack: about 256 MB of journal, 100 MB of Parquet
SPAN_EVENTS_MAX: Final = 65_536  # weeks that share a base pack: a year of one person is a few packs, not one a week
REBUILD_PROCESSES_EVENTS_MIN: Final = 100_000  # below it one process is done before others have started
DELTA_FAN_IN: Final = 8  # deltas of one size class merge 8 to 1: at most 7 a class stay
DELTA_EVENTS_MAX: Final = 65_536  # a delta that represents more folds into the base packs of its cohorts
GENERATIONS_KEPT_MIN: Final = 2  # the newest and its parent stay, whoever holds a lease
LEASE_LIFETIME_S: Final = 120  # longer than any query (QUERY_DEADLINE_S) with room for a slow reader
ORPHAN_AGE_S_MIN: Final = 3600  # a pack without a manifest may be one that is being published now
ADMISSION_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024  # eager admission; above it a re-scannable stream
SCOPE_LITERALS_MAX: Final = 200  # partitions as IN literals; a scope table above (measured, artifacts.md)
DEAD_LITERALS_MAX: Final = 500  # superseded pairs as VALUES in a view; a registered table above
MANIFEST_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024  # a manifest names deltas and faults, never partitions
FOLDS_KEPT_MAX: Final = 256  # live folds that follow mode keeps between ticks
EVENTS_PER_COMMIT_MAX: Final = 8192  # a group commit: bounds what one failed fsync takes down, and its memory
COMMIT_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024  # as one append of the largest size
READ_CHUNK_ROWS_MAX: Final = 512  # rows held between two steps of a reader; no read transaction outlives a chunk
READ_CHUNK_BYTES_MAX: Final = 8 * 1024 * 1024  # the same in bytes; one larger payload is a chunk of its own
PARTITIONS_CACHED_MAX: Final = 65_536  # heads the writer remembers; about 200 bytes each
TAIL_VERIFIED_ENTRIES_MAX: Final = 1024  # entries that every start verifies before the first append

# Search
SEARCH_TOKEN_CHARS_MAX: Final = 128  # longer tokens are cut, in text and query alike
SEARCH_WORD_MEMO_MAX: Final = 200_000  # words (or characters) the analyzer remembers: tens of megabytes

# Supervision (`polyc up`)
START_DEADLINE_S: Final = 60.0  # the edge's self-test forks workers; a loaded two-core machine takes seconds
STOP_DEADLINE_S: Final = 10.0  # an append or a publish in flight ends well within it
RESTARTS_MAX: Final = 3  # within the window; more means that restarting does not help
RESTART_WINDOW_S: Final = 60.0
SESSION_LIFETIME_S_DEFAULT: Final = 30 * 86_400
SESSION_LIFETIME_S_MAX: Final = 366 * 86_400
SESSION_BEARER_SIZE_BYTES: Final = 32  # 256 bits of chance: not to be guessed, so the hash at rest needs no salt
REVOCATION_HEARTBEAT_S: Final = 1.0  # ruling 30
SEARCH_PACK_CHUNKS_MAX: Final = 50_000  # of one pack: its index must be written from memory in one segment
SEARCH_WRITER_BYTES: Final = 2_000_000_000  # the engine's threshold for a second segment; memory is used as needed
SEARCH_FRAMES_KEPT: Final = 256  # unpacked frames of rows an open index keeps, about 20 KiB each
SEARCH_FAN_IN: Final = 8  # packs of a size class that are merged into one: the packs a query opens stay few
SEARCH_CLASS_CHUNKS: Final = 64  # chunks of the smallest size class; each class is SEARCH_FAN_IN times the last
LINE_CONNECTIONS_MAX: Final = 16  # edges and commands that append audit events at once; each has a thread
RPC_WORKERS_MAX: Final = 128  # threads of the journal's server; a tail or a waiting append holds one
RPC_CONCURRENT_MAX: Final = 512  # beyond it: RESOURCE_EXHAUSTED at once
RPC_MESSAGE_BYTES_MAX: Final = 96 * 1024 * 1024  # the largest append with its headers
STREAM_MESSAGE_ROWS_MAX: Final = 256  # entries of one streamed message
STREAM_MESSAGE_BYTES_MAX: Final = 1024 * 1024  # the same in bytes; a larger entry is a message of its own
WAIT_S_MAX: Final = 30.0  # the longest a server holds a waiting call open
SEARCH_TEXT_BYTES_MAX: Final = 128 * 1024  # of a query with its alternatives; pasted logs are searched for, too
SEARCH_WORDS_MAX: Final = 48  # different words a query asks for: each costs a posting list
SEARCH_SCOPE_WORDS_MAX: Final = 4096  # words whose number of chunks is remembered with a scope
SEARCH_PHRASE_TOKENS_MAX: Final = 16  # of one phrase; longer words are asked for in pieces
SEARCH_FILTERS_MAX: Final = 64  # values of one filter
SEARCH_LIMIT_DEFAULT: Final = 20
SEARCH_LIMIT_MAX: Final = 200  # results of one page
SEARCH_POOL: Final = 1000  # best events a shaped answer is made of; beyond it the answer says so
SEARCH_LANE_DEPTH: Final = 200  # ranks of each lane that fusion looks at
SEARCH_OFFSET_MAX: Final = 10_000  # results a cursor may lead past
FORM_SIZE_BYTES_MAX: Final = 16 * 1024  # a page's form: a bearer, a CSRF token, a few short fields
REQUESTS_PER_S: Final = 200.0  # for one address: people, pages and harnesses of a machine share the loopback one
REQUESTS_BURST: Final = 1_000
ADDRESSES_MAX: Final = 10_000  # token buckets kept; the longest idle is forgotten first
STATEMENT_ROWS_MAX: Final = 10_000  # rows a fixed statement of Control may bring home
QUERY_CLIENT_TIMEOUT_S: Final = 35.0  # the edge's own deadline of 30 s, and its last second

# Turns
PROMPT_SIZE_BYTES_MAX: Final = 512 * 1024  # inside BODY_SIZE_BYTES_MAX, below INLINE_TEXT_BYTES_MAX
HARNESS_LINE_SIZE_BYTES_MAX: Final = (
    2 * 1024 * 1024
)  # one event; with Control's own fields below PAYLOAD_SIZE_BYTES_MAX
HARNESS_EVENTS_MAX: Final = 100_000  # of one turn; the largest real session seen has 12 000
HARNESS_BATCH_MAX: Final = 64  # events of one append while a turn runs: a receipt stays small (ruling 8)
TURN_DEADLINE_S_DEFAULT: Final = 3600.0
TURN_DEADLINE_S_MAX: Final = 24 * 3600.0
TURNS_AT_ONCE_MAX: Final = 64  # live dispatches of one Control
JOURNAL_RETRIES_MAX: Final = 30  # of a turn's append while the journal is away; then the turn fails or stays open
HARNESS_STOP_S: Final = 5.0  # between the request to stop and the kill
DISPATCH_CALLS_MAX: Final = 1_000  # tool calls of a dispatch whose arguments an approver can be shown
DISPATCHES_ENDED_MAX: Final = 1_000  # remembered, so that a late harness is told that its turn is over
LATE_RECEIPT_S: Final = 900.0  # how long after a turn's end its receipts are still taken
HISTORY_MESSAGES_MAX: Final = 50  # earlier messages that a chat endpoint is given
FOLLOWER_LINES_MAX: Final = 4_096  # lines waiting for a slow reader of a turn; then it is told to read the tables
TICK_EVENTS_MAX: Final = (
    20_000  # events folded in one tick of follow mode, about a second: what is left over comes next
)
APPROVALS_WAITING_MAX: Final = 1_000
APPROVAL_WAIT_S_DEFAULT: Final = 600.0
APPROVAL_WAIT_S_MAX: Final = 24 * 3600.0
JOURNAL_RETRY_S: Final = 0.5  # between attempts while the journal is away
HARNESS_QUEUE_LINES: Final = 256  # read ahead of what is appended; then the harness waits
HARNESS_BATCH_BYTES_MAX: Final = 16 * 1024 * 1024  # of one append, well below APPEND_SIZE_BYTES_MAX
RESERVATION_RETRIES_MAX: Final = 16  # lost races for one persona's spending; more at once is a runaway agent
RESERVATION_LIFETIME_S: Final = 3600.0  # an unused reservation then no longer counts as spent
RECEIPT_SIGNERS_MAX: Final = 10_000
SEARCH_WAIT_MS_MAX: Final = 30_000  # how long an answer may be held for a fresher generation
TURNS_LISTED_DEFAULT: Final = 20  # data-plane.txt, "How an agent reads its own conversation"
TURNS_LISTED_MAX: Final = 50
CALLS_LISTED_DEFAULT: Final = 20
CALLS_LISTED_MAX: Final = 100
ARGUMENT_PREVIEW_CHARS: Final = 200
WALLET_CHALLENGE_S: Final = 600.0
WALLET_CHALLENGES_MAX: Final = 10_000
ROUTINE_TICK_S: Final = 1.0
ROUTINE_PERIOD_S_MIN: Final = 60
SEARCH_MERGE_CHUNKS_MAX: Final = 4096  # chunks that a tick may copy to merge packs: about half a second
