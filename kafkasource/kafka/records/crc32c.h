/* CRC32C by the processor's own instructions, so that the kernel checks batches by itself and without the GIL.
 *
 * One crc32 instruction takes 8 bytes in 3 cycles but another can start in each, so three lanes run side by side. What
 * the first two found is moved over the bytes behind them by a carry-less multiplication with x^(8 * bytes - 33) mod P
 * and folded into the last word of the third. Where there are no such instructions the caller uses another library. */

#ifndef KAFKASOURCE_CRC32C_H
#define KAFKASOURCE_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <nmmintrin.h>
#include <wmmintrin.h>

#define CRC32C_TARGET __attribute__((target("sse4.2,pclmul")))
#define CRC32C_WORD(crc, word) _mm_crc32_u64(crc, word)
#define CRC32C_BYTE(crc, byte) _mm_crc32_u8((uint32_t)(crc), byte)

static int crc32c_is_supported(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

#include <arm_acle.h>

#define CRC32C_TARGET
#define CRC32C_WORD(crc, word) __crc32cd((uint32_t)(crc), word)
#define CRC32C_BYTE(crc, byte) __crc32cb((uint32_t)(crc), byte)

static int crc32c_is_supported(void) { return 1; }

#else

#define CRC32C_TARGET
#define CRC32C_WORD(crc, word) (crc)
#define CRC32C_BYTE(crc, byte) (crc)

static int crc32c_is_supported(void) { return 0; }

#endif

static inline uint64_t crc32c_word_at(const unsigned char *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

#if defined(__x86_64__) && defined(__GNUC__)

CRC32C_TARGET static inline uint64_t crc32c_moved(uint64_t crc, uint32_t power) {
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)power), 0));
}

/* Takes blocks of three lanes of `lane` bytes, `once` and `twice` being the powers for a lane and for two. */
CRC32C_TARGET static inline uint64_t crc32c_blocks(uint64_t crc, const unsigned char **data, size_t *size, size_t lane,
                                                   uint32_t once, uint32_t twice) {
    const unsigned char *at = *data;
    for (; *size >= 3 * lane; *size -= 3 * lane, at += 3 * lane) {
        uint64_t second = 0, third = 0;
        size_t i;
        for (i = 0; i < lane - 8; i += 8) {
            crc = _mm_crc32_u64(crc, crc32c_word_at(at + i));
            second = _mm_crc32_u64(second, crc32c_word_at(at + lane + i));
            third = _mm_crc32_u64(third, crc32c_word_at(at + 2 * lane + i));
        }
        crc = _mm_crc32_u64(crc, crc32c_word_at(at + i));
        second = _mm_crc32_u64(second, crc32c_word_at(at + lane + i));
        crc = _mm_crc32_u64(third, crc32c_word_at(at + 2 * lane + i) ^ crc32c_moved(crc, twice) ^
                                       crc32c_moved(second, once));
    }
    *data = at;
    return crc;
}

#define CRC32C_BLOCKS(crc, data, size)                                 \
    crc = crc32c_blocks(crc, &data, &size, 1024, 0x170076FA, 0xA51B6135); \
    crc = crc32c_blocks(crc, &data, &size, 64, 0x9E4ADDF8, 0x0D3B6092)

#else

#define CRC32C_BLOCKS(crc, data, size)

#endif

/* CRC32C of `size` bytes. Only where crc32c_is_supported(). */
CRC32C_TARGET static uint32_t crc32c_of(const unsigned char *data, size_t size) {
    uint64_t crc = 0xFFFFFFFF;
    CRC32C_BLOCKS(crc, data, size);
    for (; size >= 8; size -= 8, data += 8) crc = CRC32C_WORD(crc, crc32c_word_at(data));
    for (; size > 0; size--, data++) crc = CRC32C_BYTE(crc, *data);
    return (uint32_t)crc ^ 0xFFFFFFFF;
}

#endif
