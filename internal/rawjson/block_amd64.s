#include "go_asm.h"
#include "textflag.h"

DATA quote<>+0(SB)/8, $0x2222222222222222
DATA quote<>+8(SB)/8, $0x2222222222222222
GLOBL quote<>(SB), RODATA|NOPTR, $16
DATA backslash<>+0(SB)/8, $0x5C5C5C5C5C5C5C5C
DATA backslash<>+8(SB)/8, $0x5C5C5C5C5C5C5C5C
GLOBL backslash<>(SB), RODATA|NOPTR, $16
DATA control<>+0(SB)/8, $0x1F1F1F1F1F1F1F1F
DATA control<>+8(SB)/8, $0x1F1F1F1F1F1F1F1F
GLOBL control<>(SB), RODATA|NOPTR, $16
DATA slash<>+0(SB)/8, $0x2F2F2F2F2F2F2F2F
DATA slash<>+8(SB)/8, $0x2F2F2F2F2F2F2F2F
GLOBL slash<>(SB), RODATA|NOPTR, $16
DATA letterN<>+0(SB)/8, $0x6E6E6E6E6E6E6E6E
DATA letterN<>+8(SB)/8, $0x6E6E6E6E6E6E6E6E
GLOBL letterN<>(SB), RODATA|NOPTR, $16
DATA letterR<>+0(SB)/8, $0x7272727272727272
DATA letterR<>+8(SB)/8, $0x7272727272727272
GLOBL letterR<>(SB), RODATA|NOPTR, $16
DATA letterT<>+0(SB)/8, $0x7474747474747474
DATA letterT<>+8(SB)/8, $0x7474747474747474
GLOBL letterT<>(SB), RODATA|NOPTR, $16
DATA fromBToF<>+0(SB)/8, $0x0404040404040404
DATA fromBToF<>+8(SB)/8, $0x0404040404040404
GLOBL fromBToF<>(SB), RODATA|NOPTR, $16
DATA letterF<>+0(SB)/8, $0x6666666666666666
DATA letterF<>+8(SB)/8, $0x6666666666666666
GLOBL letterF<>(SB), RODATA|NOPTR, $16

// OR_EQUAL adds to the bytes of to that equal those of what; it spoils X4.
#define OR_EQUAL(what, to) \
	MOVO X0, X4;      \
	PCMPEQB what, X4; \
	POR  X4, to

// MARK marks sixteen bytes: quotes in R8, backslashes in R9, others in R10, short escapes in R11.
#define MARK(offset) \
	MOVOU offset(SI), X0; \
	MOVO  X0, X1;         \
	PCMPEQB X5, X1;       \
	MOVO  X0, X2;         \
	PCMPEQB X6, X2;       \
	MOVO  X0, X3;         \
	PMINUB X7, X3;        \
	PCMPEQB X0, X3;       \
	POR   X0, X3;         \
	PMOVMSKB X1, R8;      \
	PMOVMSKB X2, R9;      \
	PMOVMSKB X3, R10;     \
	POR   X2, X1;         \
	OR_EQUAL(X8, X1);     \
	OR_EQUAL(X9, X1);     \
	OR_EQUAL(X10, X1);    \
	OR_EQUAL(X11, X1);    \
	POR   X12, X0;        \
	PCMPEQB X13, X0;      \
	POR   X0, X1;         \
	PMOVMSKB X1, R11

// GATHER puts the marks of sixteen bytes above those before.
#define GATHER(shift) \
	SHLQ $shift, R8;  \
	SHLQ $shift, R9;  \
	SHLQ $shift, R10; \
	SHLQ $shift, R11; \
	ORQ  R8, BX;      \
	ORQ  R9, CX;      \
	ORQ  R10, DX;     \
	ORQ  R11, DI

// func markBlockSSE2(b *[64]byte, m *marks)
//
// Sixteen bytes at a time, with what every amd64 has. A byte is a control character when the smaller of it and 0x1F is
// itself, and not ASCII when its top bit is set. Of the short escapes, b and f differ in one bit.
TEXT ·markBlockSSE2(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), SI
	MOVOU quote<>(SB), X5
	MOVOU backslash<>(SB), X6
	MOVOU control<>(SB), X7
	MOVOU slash<>(SB), X8
	MOVOU letterN<>(SB), X9
	MOVOU letterR<>(SB), X10
	MOVOU letterT<>(SB), X11
	MOVOU fromBToF<>(SB), X12
	MOVOU letterF<>(SB), X13

	MARK(0)
	MOVQ R8, BX
	MOVQ R9, CX
	MOVQ R10, DX
	MOVQ R11, DI
	MARK(16)
	GATHER(16)
	MARK(32)
	GATHER(32)
	MARK(48)
	GATHER(48)

	MOVQ m+8(FP), SI
	MOVQ BX, marks_quotes(SI)
	MOVQ CX, marks_backslashes(SI)
	MOVQ DX, marks_others(SI)
	MOVQ DI, marks_short(SI)
	RET

// What a byte is follows from both its halves: each has a table of what it may be part of, and what both allow, it is.
// 1 is a quote, 2 a backslash, 4 a control character, 8, 32 and 64 are the rest of the short escapes.
DATA byLowHalf<>+0(SB)/8, $0x04240444046D0404
DATA byLowHalf<>+8(SB)/8, $0x0C24040604040404
DATA byLowHalf<>+16(SB)/8, $0x04240444046D0404
DATA byLowHalf<>+24(SB)/8, $0x0C24040604040404
GLOBL byLowHalf<>(SB), RODATA|NOPTR, $32
DATA byHighHalf<>+0(SB)/8, $0x4020020000090404
DATA byHighHalf<>+8(SB)/8, $0x0000000000000000
DATA byHighHalf<>+16(SB)/8, $0x4020020000090404
DATA byHighHalf<>+24(SB)/8, $0x0000000000000000
GLOBL byHighHalf<>(SB), RODATA|NOPTR, $32
DATA lowHalf<>+0(SB)/8, $0x0F0F0F0F0F0F0F0F
DATA lowHalf<>+8(SB)/8, $0x0F0F0F0F0F0F0F0F
DATA lowHalf<>+16(SB)/8, $0x0F0F0F0F0F0F0F0F
DATA lowHalf<>+24(SB)/8, $0x0F0F0F0F0F0F0F0F
GLOBL lowHalf<>(SB), RODATA|NOPTR, $32
DATA shortEscapes<>+0(SB)/8, $0x6A6A6A6A6A6A6A6A
DATA shortEscapes<>+8(SB)/8, $0x6A6A6A6A6A6A6A6A
DATA shortEscapes<>+16(SB)/8, $0x6A6A6A6A6A6A6A6A
DATA shortEscapes<>+24(SB)/8, $0x6A6A6A6A6A6A6A6A
GLOBL shortEscapes<>(SB), RODATA|NOPTR, $32

// MARK32 marks 32 bytes: quotes in R8, backslashes in R9, others in R10, what is no short escape in R11.
#define MARK32(offset) \
	VMOVDQU offset(SI), Y0;  \
	VPSRLW $4, Y0, Y1;       \
	VPAND Y1, Y4, Y1;        \
	VPSHUFB Y0, Y5, Y2;      \
	VPSHUFB Y1, Y6, Y3;      \
	VPAND Y2, Y3, Y2;        \
	VPSLLW $7, Y2, Y1;       \
	VPMOVMSKB Y1, R8;        \
	VPSLLW $6, Y2, Y1;       \
	VPMOVMSKB Y1, R9;        \
	VPSLLW $5, Y2, Y1;       \
	VPOR Y1, Y0, Y1;         \
	VPMOVMSKB Y1, R10;       \
	VPAND Y2, Y7, Y1;        \
	VPCMPEQB Y1, Y8, Y1;     \
	VPMOVMSKB Y1, R11

// func markBlockAVX2(b *[64]byte, m *marks)
TEXT ·markBlockAVX2(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), SI
	VMOVDQU lowHalf<>(SB), Y4
	VMOVDQU byLowHalf<>(SB), Y5
	VMOVDQU byHighHalf<>(SB), Y6
	VMOVDQU shortEscapes<>(SB), Y7
	VPXOR Y8, Y8, Y8

	MARK32(0)
	MOVQ R8, BX
	MOVQ R9, CX
	MOVQ R10, DX
	MOVQ R11, DI
	MARK32(32)
	VZEROUPPER
	GATHER(32)
	NOTQ DI

	MOVQ m+8(FP), SI
	MOVQ BX, marks_quotes(SI)
	MOVQ CX, marks_backslashes(SI)
	MOVQ DX, marks_others(SI)
	MOVQ DI, marks_short(SI)
	RET
