#include "go_asm.h"
#include "textflag.h"

// EACH16 is sixteen bytes alike, for SSE2.
#define EACH16(name, eight) \
	DATA name<>+0(SB)/8, eight; \
	DATA name<>+8(SB)/8, eight; \
	GLOBL name<>(SB), RODATA|NOPTR, $16

// TABLE32 is a table of sixteen bytes, once for each half of a register of AVX2.
#define TABLE32(name, low, high) \
	DATA name<>+0(SB)/8, low;   \
	DATA name<>+8(SB)/8, high;  \
	DATA name<>+16(SB)/8, low;  \
	DATA name<>+24(SB)/8, high; \
	GLOBL name<>(SB), RODATA|NOPTR, $32

EACH16(quote, $0x2222222222222222)
EACH16(backslash, $0x5C5C5C5C5C5C5C5C)
EACH16(control, $0x1F1F1F1F1F1F1F1F)
EACH16(slash, $0x2F2F2F2F2F2F2F2F)
EACH16(letterN, $0x6E6E6E6E6E6E6E6E)
EACH16(letterR, $0x7272727272727272)
EACH16(letterT, $0x7474747474747474)
EACH16(fromBToF, $0x0404040404040404)
EACH16(letterF, $0x6666666666666666)

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
TABLE32(byLowHalf, $0x04240444046D0404, $0x0C24040604040404)
TABLE32(byHighHalf, $0x4020020000090404, $0x0000000000000000)
TABLE32(lowHalf, $0x0F0F0F0F0F0F0F0F, $0x0F0F0F0F0F0F0F0F)
TABLE32(shortEscapes, $0x6A6A6A6A6A6A6A6A, $0x6A6A6A6A6A6A6A6A)

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

// UTF-8 is checked by what two bytes in a row can have wrong with them, after Keiser and Lemire, "Validating UTF-8 In Less
// Than One Instruction Per Byte": three tables by half bytes, a bit for each kind of mistake, and what all three allow is
// one. The top bit is for two continuations in a row, which are right in the third and the fourth byte of a character.
TABLE32(byFirstHigh, $0x0202020202020202, $0x4915012180808080)
TABLE32(byFirstLow, $0xCBCBCB8B8383A3E7, $0xCBCBDBCBCBCBCBCB)
TABLE32(bySecondHigh, $0x0101010101010101, $0x01010101BABAAEE6)
TABLE32(third, $0x6060606060606060, $0x6060606060606060)
TABLE32(fourth, $0x7070707070707070, $0x7070707070707070)
TABLE32(top, $0x8080808080808080, $0x8080808080808080)

// UTF8 adds to Y12 what is wrong with the 32 bytes of in, which stand behind those of before. It spoils Y1, Y2 and Y3.
#define UTF8(in, before) \
	VPERM2I128 $0x21, in, before, Y1; \
	VPALIGNR $15, Y1, in, Y2;         \
	VPSRLW $4, Y2, Y3;                \
	VPAND Y3, Y4, Y3;                 \
	VPAND Y2, Y4, Y2;                 \
	VPSHUFB Y3, Y13, Y3;              \
	VPSHUFB Y2, Y14, Y2;              \
	VPAND Y2, Y3, Y3;                 \
	VPSRLW $4, in, Y2;                \
	VPAND Y2, Y4, Y2;                 \
	VPSHUFB Y2, Y15, Y2;              \
	VPAND Y2, Y3, Y3;                 \
	VPALIGNR $14, Y1, in, Y2;         \
	VPSUBUSB third<>(SB), Y2, Y2;     \
	VPALIGNR $13, Y1, in, Y1;         \
	VPSUBUSB fourth<>(SB), Y1, Y1;    \
	VPOR Y1, Y2, Y2;                  \
	VPAND top<>(SB), Y2, Y2;          \
	VPXOR Y3, Y2, Y2;                 \
	VPOR Y2, Y12, Y12

// CLASSES puts into classes what the 32 bytes of in are; it spoils Y1.
#define CLASSES(in, classes) \
	VPSRLW $4, in, Y1;       \
	VPAND Y1, Y4, Y1;        \
	VPSHUFB in, Y5, classes; \
	VPSHUFB Y1, Y6, Y1;      \
	VPAND Y1, classes, classes

// BITS collects bit (7-shift) of the classes in Y2 and Y3; it spoils Y0, Y1 and R8.
#define BITS(shift, to) \
	VPSLLW $shift, Y2, Y0; \
	VPSLLW $shift, Y3, Y1; \
	VPMOVMSKB Y0, to;      \
	VPMOVMSKB Y1, R8;      \
	SHLQ $32, R8;          \
	ORQ  R8, to

// func passBlocksAVX2(first *byte, blocks int, carry uint64) (passed int, next, backslashes uint64)
//
// The escapes are found as in marks.escaped: R8 has the backslashes that nothing escapes yet, R9 what stands behind them
// and behind the block before, and R11 the carry into the next block. Y9 has the 32 bytes before the block, and the top
// bits of Y0 say whether it or the block before has bytes that are not ASCII.
TEXT ·passBlocksAVX2(SB), NOSPLIT, $0-48
	MOVQ first+0(FP), SI
	MOVQ blocks+8(FP), DI
	MOVQ carry+16(FP), R12
	MOVQ $0x5555555555555555, R13
	MOVQ $0, backslashes+40(FP)
	VMOVDQU lowHalf<>(SB), Y4
	VMOVDQU byLowHalf<>(SB), Y5
	VMOVDQU byHighHalf<>(SB), Y6
	VMOVDQU shortEscapes<>(SB), Y7
	VPXOR Y8, Y8, Y8
	VPXOR Y9, Y9, Y9
	VPXOR Y12, Y12, Y12
	JMP  more

block:
	VMOVDQU (SI), Y10
	VMOVDQU 32(SI), Y11
	VPOR Y10, Y11, Y0
	VPOR Y9, Y0, Y0
	VPMOVMSKB Y0, AX
	TESTL AX, AX
	JNE  utf8

classes:
	CLASSES(Y10, Y2)
	CLASSES(Y11, Y3)
	VMOVDQA Y11, Y9
	BITS(7, BX) // quotes
	BITS(6, CX) // backslashes
	BITS(5, DX) // control characters
	VPAND Y2, Y7, Y2
	VPAND Y3, Y7, Y3
	VPCMPEQB Y2, Y8, Y2
	VPCMPEQB Y3, Y8, Y3
	BITS(0, AX) // what makes no short escape

	MOVQ R12, R8
	NOTQ R8
	ANDQ CX, R8
	LEAQ (R12)(R8*2), R9
	MOVQ R9, R10
	ORQ  R13, R10
	NOTQ R10
	ANDQ R8, R10
	XORL R11, R11
	ADDQ R8, R10
	SETCS R11
	ADDQ R10, R10
	XORQ R13, R10
	ANDQ R9, R10 // escaped

	ANDQ R10, AX
	ORQ  DX, AX // unusual
	NOTQ R10
	ANDQ BX, R10 // ends
	ORQ  R10, AX
	JNE  done

	ORQ  CX, backslashes+40(FP)
	MOVQ R11, R12
	ADDQ $64, SI
	DECQ DI

more:
	TESTQ DI, DI
	JGT  block

done:
	VZEROUPPER
	SUBQ first+0(FP), SI
	MOVQ SI, passed+24(FP)
	MOVQ R12, next+32(FP)
	RET

utf8:
	VMOVDQU byFirstHigh<>(SB), Y13
	VMOVDQU byFirstLow<>(SB), Y14
	VMOVDQU bySecondHigh<>(SB), Y15
	UTF8(Y10, Y9)
	UTF8(Y11, Y10)
	VPTEST Y12, Y12
	JEQ  classes
	JMP  done
