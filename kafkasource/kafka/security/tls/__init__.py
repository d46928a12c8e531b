"""TLS without a socket.

options    the table of options             config    the options as a value
stores     truststores and keystores        context   OpenSSL's context, renewed when files change
stream     one connection: bytes to bytes   errors    what to say where it fails
pem, jks, der, certificates, store_files, ciphers: the formats that these read
"""
