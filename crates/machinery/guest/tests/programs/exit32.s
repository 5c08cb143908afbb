# A 32-bit program that does nothing but end: as --32, ld -m elf_i386.
.globl _start
_start:
    movl $1, %eax
    movl $5, %ebx
    int $0x80
