# Numbers and bits of Arrow's buffers, inline in each kernel of the formats. buffers.py has the same for the interpreted kernels.
from libc.string cimport memcpy

cdef inline bint is_little() noexcept nogil:
    cdef unsigned int one = 1
    cdef unsigned char first = 0
    memcpy(&first, &one, 1)
    return first == 1

cdef inline int bit_at(const unsigned char* bitmap, Py_ssize_t index) noexcept nogil:
    return (bitmap[index >> 3] >> (index & 7)) & 1

cdef inline void put_bit(unsigned char* out, Py_ssize_t index, int bit) noexcept nogil:
    cdef int byte = out[index >> 3]
    cdef int mask = 1 << (index & 7)
    out[index >> 3] = (byte | mask) if bit else (byte & (255 ^ mask))

cdef inline Py_ssize_t signed32(const unsigned char* data, Py_ssize_t index) noexcept nogil:
    cdef int raw = 0
    memcpy(&raw, data + 4 * index, 4)
    return raw

cdef inline long long signed64(const unsigned char* data, Py_ssize_t index) noexcept nogil:
    cdef long long raw = 0
    memcpy(&raw, data + 8 * index, 8)
    return raw

cdef inline void store32(unsigned char* out, Py_ssize_t index, int value) noexcept nogil:
    memcpy(out + 4 * index, &value, 4)

cdef inline void store64(unsigned char* out, Py_ssize_t index, long long value) noexcept nogil:
    memcpy(out + 8 * index, &value, 8)

cdef inline (unsigned long long, unsigned long long) product(unsigned long long left, unsigned long long right) noexcept nogil:
    cdef unsigned long long mask = 0xFFFFFFFF
    cdef unsigned long long low = (left & mask) * (right & mask)
    cdef unsigned long long first = (left >> 32) * (right & mask)
    cdef unsigned long long second = (left & mask) * (right >> 32)
    cdef unsigned long long middle = (low >> 32) + (first & mask) + (second & mask)
    return (left >> 32) * (right >> 32) + (first >> 32) + (second >> 32) + (middle >> 32), (middle << 32) | (low & mask)
