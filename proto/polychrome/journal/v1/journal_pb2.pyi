from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SignedEntry(_message.Message):
    __slots__ = ("header", "salt", "payload")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    header: bytes
    salt: bytes
    payload: bytes
    def __init__(self, header: _Optional[bytes] = ..., salt: _Optional[bytes] = ..., payload: _Optional[bytes] = ...) -> None: ...

class SignedAppend(_message.Message):
    __slots__ = ("partition", "append_id", "key_id", "signature", "entries", "replaces")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    APPEND_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    partition: str
    append_id: bytes
    key_id: bytes
    signature: bytes
    entries: _containers.RepeatedCompositeFieldContainer[SignedEntry]
    replaces: bytes
    def __init__(self, partition: _Optional[str] = ..., append_id: _Optional[bytes] = ..., key_id: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., entries: _Optional[_Iterable[_Union[SignedEntry, _Mapping]]] = ..., replaces: _Optional[bytes] = ...) -> None: ...

class PartitionHead(_message.Message):
    __slots__ = ("partition", "incarnation", "position", "leaf", "first_index", "last_index")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    partition: str
    incarnation: bytes
    position: int
    leaf: bytes
    first_index: int
    last_index: int
    def __init__(self, partition: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., position: _Optional[int] = ..., leaf: _Optional[bytes] = ..., first_index: _Optional[int] = ..., last_index: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("first_index", "first_position", "last_position", "head", "checkpoint", "repeated")
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    FIRST_POSITION_FIELD_NUMBER: _ClassVar[int]
    LAST_POSITION_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    first_index: int
    first_position: int
    last_position: int
    head: PartitionHead
    checkpoint: str
    repeated: bool
    def __init__(self, first_index: _Optional[int] = ..., first_position: _Optional[int] = ..., last_position: _Optional[int] = ..., head: _Optional[_Union[PartitionHead, _Mapping]] = ..., checkpoint: _Optional[str] = ..., repeated: _Optional[bool] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("index", "header", "salt", "payload", "signature")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    index: int
    header: bytes
    salt: bytes
    payload: bytes
    signature: bytes
    def __init__(self, index: _Optional[int] = ..., header: _Optional[bytes] = ..., salt: _Optional[bytes] = ..., payload: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class StoredAppend(_message.Message):
    __slots__ = ("index", "position", "count", "append_id", "signature", "form", "body")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    APPEND_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    index: int
    position: int
    count: int
    append_id: bytes
    signature: bytes
    form: int
    body: bytes
    def __init__(self, index: _Optional[int] = ..., position: _Optional[int] = ..., count: _Optional[int] = ..., append_id: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., form: _Optional[int] = ..., body: _Optional[bytes] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("append",)
    APPEND_FIELD_NUMBER: _ClassVar[int]
    append: SignedAppend
    def __init__(self, append: _Optional[_Union[SignedAppend, _Mapping]] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("ack",)
    ACK_FIELD_NUMBER: _ClassVar[int]
    ack: Ack
    def __init__(self, ack: _Optional[_Union[Ack, _Mapping]] = ...) -> None: ...

class AppendManyRequest(_message.Message):
    __slots__ = ("append",)
    APPEND_FIELD_NUMBER: _ClassVar[int]
    append: SignedAppend
    def __init__(self, append: _Optional[_Union[SignedAppend, _Mapping]] = ...) -> None: ...

class AppendManyResponse(_message.Message):
    __slots__ = ("ack",)
    ACK_FIELD_NUMBER: _ClassVar[int]
    ack: Ack
    def __init__(self, ack: _Optional[_Union[Ack, _Mapping]] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("partition", "from_position", "incarnation", "through_index", "signatures", "stored")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FROM_POSITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    THROUGH_INDEX_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    partition: str
    from_position: int
    incarnation: bytes
    through_index: int
    signatures: bool
    stored: bool
    def __init__(self, partition: _Optional[str] = ..., from_position: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., through_index: _Optional[int] = ..., signatures: _Optional[bool] = ..., stored: _Optional[bool] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("head", "entries", "appends")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    APPENDS_FIELD_NUMBER: _ClassVar[int]
    head: PartitionHead
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    appends: _containers.RepeatedCompositeFieldContainer[StoredAppend]
    def __init__(self, head: _Optional[_Union[PartitionHead, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., appends: _Optional[_Iterable[_Union[StoredAppend, _Mapping]]] = ...) -> None: ...

class ReadAllRequest(_message.Message):
    __slots__ = ("from_index", "to_index", "stored")
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    TO_INDEX_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    from_index: int
    to_index: int
    stored: bool
    def __init__(self, from_index: _Optional[int] = ..., to_index: _Optional[int] = ..., stored: _Optional[bool] = ...) -> None: ...

class ReadAllResponse(_message.Message):
    __slots__ = ("entries", "appends")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    APPENDS_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    appends: _containers.RepeatedCompositeFieldContainer[StoredAppend]
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., appends: _Optional[_Iterable[_Union[StoredAppend, _Mapping]]] = ...) -> None: ...

class TailRequest(_message.Message):
    __slots__ = ("from_index", "stored")
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    from_index: int
    stored: bool
    def __init__(self, from_index: _Optional[int] = ..., stored: _Optional[bool] = ...) -> None: ...

class TailResponse(_message.Message):
    __slots__ = ("entries", "size", "appends")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    APPENDS_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    size: int
    appends: _containers.RepeatedCompositeFieldContainer[StoredAppend]
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., size: _Optional[int] = ..., appends: _Optional[_Iterable[_Union[StoredAppend, _Mapping]]] = ...) -> None: ...

class HeadRequest(_message.Message):
    __slots__ = ("partition", "incarnation")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    partition: str
    incarnation: bytes
    def __init__(self, partition: _Optional[str] = ..., incarnation: _Optional[bytes] = ...) -> None: ...

class HeadResponse(_message.Message):
    __slots__ = ("head",)
    HEAD_FIELD_NUMBER: _ClassVar[int]
    head: PartitionHead
    def __init__(self, head: _Optional[_Union[PartitionHead, _Mapping]] = ...) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ("changed_since",)
    CHANGED_SINCE_FIELD_NUMBER: _ClassVar[int]
    changed_since: int
    def __init__(self, changed_since: _Optional[int] = ...) -> None: ...

class ListPartitionsResponse(_message.Message):
    __slots__ = ("heads",)
    HEADS_FIELD_NUMBER: _ClassVar[int]
    heads: _containers.RepeatedCompositeFieldContainer[PartitionHead]
    def __init__(self, heads: _Optional[_Iterable[_Union[PartitionHead, _Mapping]]] = ...) -> None: ...

class GetCheckpointRequest(_message.Message):
    __slots__ = ("beyond_size", "timeout_ms")
    BEYOND_SIZE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    beyond_size: int
    timeout_ms: int
    def __init__(self, beyond_size: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class GetCheckpointResponse(_message.Message):
    __slots__ = ("size", "checkpoint", "origin", "torn_bytes", "opened_size")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    TORN_BYTES_FIELD_NUMBER: _ClassVar[int]
    OPENED_SIZE_FIELD_NUMBER: _ClassVar[int]
    size: int
    checkpoint: str
    origin: str
    torn_bytes: int
    opened_size: int
    def __init__(self, size: _Optional[int] = ..., checkpoint: _Optional[str] = ..., origin: _Optional[str] = ..., torn_bytes: _Optional[int] = ..., opened_size: _Optional[int] = ...) -> None: ...

class GetReceiptRequest(_message.Message):
    __slots__ = ("partition", "position", "incarnation")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    partition: str
    position: int
    incarnation: bytes
    def __init__(self, partition: _Optional[str] = ..., position: _Optional[int] = ..., incarnation: _Optional[bytes] = ...) -> None: ...

class GetReceiptResponse(_message.Message):
    __slots__ = ("receipt",)
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    receipt: str
    def __init__(self, receipt: _Optional[str] = ...) -> None: ...

class GetConsistencyProofRequest(_message.Message):
    __slots__ = ("old_size", "new_size")
    OLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    NEW_SIZE_FIELD_NUMBER: _ClassVar[int]
    old_size: int
    new_size: int
    def __init__(self, old_size: _Optional[int] = ..., new_size: _Optional[int] = ...) -> None: ...

class GetConsistencyProofResponse(_message.Message):
    __slots__ = ("new_size", "hashes")
    NEW_SIZE_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    new_size: int
    hashes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, new_size: _Optional[int] = ..., hashes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GetPayloadKeyRequest(_message.Message):
    __slots__ = ("partition", "incarnation", "authoring")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    AUTHORING_FIELD_NUMBER: _ClassVar[int]
    partition: str
    incarnation: bytes
    authoring: bool
    def __init__(self, partition: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., authoring: _Optional[bool] = ...) -> None: ...

class GetPayloadKeyResponse(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class AddCosignaturesRequest(_message.Message):
    __slots__ = ("size", "lines")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    size: int
    lines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, size: _Optional[int] = ..., lines: _Optional[_Iterable[str]] = ...) -> None: ...

class AddCosignaturesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AppendAuditRequest(_message.Message):
    __slots__ = ("append",)
    APPEND_FIELD_NUMBER: _ClassVar[int]
    append: SignedAppend
    def __init__(self, append: _Optional[_Union[SignedAppend, _Mapping]] = ...) -> None: ...

class AppendAuditResponse(_message.Message):
    __slots__ = ("ack",)
    ACK_FIELD_NUMBER: _ClassVar[int]
    ack: Ack
    def __init__(self, ack: _Optional[_Union[Ack, _Mapping]] = ...) -> None: ...

class AuditHeadRequest(_message.Message):
    __slots__ = ("partition",)
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    partition: str
    def __init__(self, partition: _Optional[str] = ...) -> None: ...

class AuditHeadResponse(_message.Message):
    __slots__ = ("head", "origin")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    head: PartitionHead
    origin: str
    def __init__(self, head: _Optional[_Union[PartitionHead, _Mapping]] = ..., origin: _Optional[str] = ...) -> None: ...
