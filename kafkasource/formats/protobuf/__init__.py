"""Protobuf: schema text or an encoded FileDescriptorProto to linked messages (`schema`), which of them a record is
(`message_index`), and its records to columns (`decode`)."""
