"""Protobuf: schema text or an encoded FileDescriptorProto to linked messages (`schema`), and which of them a record is
(`message_index`)."""
