"""Protobuf records to the columns of one message type."""

from __future__ import annotations

from kafkasource.formats.decoding.decode import Decoder
from kafkasource.formats.protobuf.columns import MessageLayout
from kafkasource.formats.protobuf.programs import MessageProgram
from kafkasource.formats.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.formats.protobuf.schema import MessageType, ProtobufSchema


class ProtobufDecoder(Decoder):
    """Decodes one message type of the reader's schema, by one program (0)."""

    def __init__(self, schema: ProtobufSchema, message: MessageType, rendering: Rendering = AS_FROM_PROTOBUF) -> None:
        """SchemaError with the place where there is no column for the message."""
        layout = MessageLayout(schema, message, rendering)
        super().__init__(layout, MessageProgram(schema, layout, rendering))
