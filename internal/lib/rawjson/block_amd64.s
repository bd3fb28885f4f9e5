#include "textflag.h"

// TABLE32 is a table of sixteen bytes, once for each half of a register of AVX2.
#define TABLE32(name, low, high) \
	DATA name<>+0(SB)/8, low;   \
	DATA name<>+8(SB)/8, high;  \
	DATA name<>+16(SB)/8, low;  \
	DATA name<>+24(SB)/8, high; \
	GLOBL name<>(SB), RODATA|NOPTR, $32

// What a byte is follows from both its halves: each has a table of what it may be part of, and what both allow, it is.
// 1 is a quote, 2 a backslash, 4 a control character, 8, 32 and 64 are the rest of the short escapes.
TABLE32(byLowHalf, $0x04240444046D0404, $0x0C24040604040404)
TABLE32(byHighHalf, $0x4020020000090404, $0x0000000000000000)
TABLE32(lowHalf, $0x0F0F0F0F0F0F0F0F, $0x0F0F0F0F0F0F0F0F)
TABLE32(shortEscapes, $0x6A6A6A6A6A6A6A6A, $0x6A6A6A6A6A6A6A6A)

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

// func passBlocksAVX2(first *byte, blocks int) (passed int, cut, backslashes uint64)
//
// A byte is escaped if it stands behind a backslash that is not escaped itself, so a run of backslashes escapes what follows it if its
// length is odd. Adding the first bits of the runs that begin at odd places to all backslashes carries through these runs and leaves a
// bit behind each; comparing that with even and odd places tells the lengths. R8 has the backslashes that nothing escapes yet, R9 what
// stands behind them and behind the block before, and R11 the carry into the next block, which is cut after the last one. Y9 has the 32
// bytes before the block, and the top bits of Y0 say whether it or the block before has bytes that are not ASCII.
TEXT ·passBlocksAVX2(SB), NOSPLIT, $0-40
	MOVQ first+0(FP), SI
	MOVQ blocks+8(FP), DI
	XORL R12, R12
	MOVQ $0x5555555555555555, R13
	MOVQ $0, backslashes+32(FP)
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

	ORQ  CX, backslashes+32(FP)
	MOVQ R11, R12
	ADDQ $64, SI
	DECQ DI

more:
	TESTQ DI, DI
	JGT  block

done:
	VZEROUPPER
	SUBQ first+0(FP), SI
	MOVQ SI, passed+16(FP)
	MOVQ R12, cut+24(FP)
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
