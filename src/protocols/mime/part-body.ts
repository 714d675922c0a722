/**
 * @module Collects the content of a part while the message is read. Decodes the content as it arrives; keeps it in
 * memory while it is small, and writes it to a file once it is large.
 */
import type { AttachmentFile } from './parsed.ts'
import { joinPieces } from './source.ts'
import { createTransferDecoder } from './transfer-encoding.ts'

/** Receives content that is too large for memory. An error that the writer throws is not a fault of the message. */
export interface FileWriter {
  write(bytes: Uint8Array): void
  finish(): AttachmentFile
}

export interface PartContent {
  /** The decoded content; only its beginning when there is a file. The buffer may be a view of the message. */
  readonly start: Uint8Array
  readonly sizeBytes: number
  /** The whole content, when it exceeds the memory limit. */
  readonly file: AttachmentFile | undefined
}

export type PartBody = ReturnType<typeof createPartBody>

/**
 * @param encoding Content-Transfer-Encoding in lower case
 * @param memoryBytes content larger than this goes to a file
 * @param newFile if left out, everything stays in memory
 */
export function createPartBody(encoding: string, memoryBytes: number, newFile?: () => FileWriter) {
  const decoder = createTransferDecoder(encoding)
  const pieces: Uint8Array[] = []
  let sizeBytes = 0
  let isEmpty = true
  let file: FileWriter | undefined
  const add = (decoded: Uint8Array): void => {
    if (decoded.length === 0) return
    sizeBytes += decoded.length
    if (file) file.write(decoded)
    else pieces.push(decoded)
    if (file || !newFile || sizeBytes <= memoryBytes) return
    file = newFile()
    for (const piece of pieces) file.write(piece)
    const start = joinPieces(pieces).slice(0, memoryBytes)
    pieces.length = 0
    pieces.push(start)
  }
  return {
    get isEmpty(): boolean {
      return isEmpty
    },
    push(encoded: Uint8Array): void {
      isEmpty = false
      add(decoder.push(encoded))
    },
    end(): PartContent {
      add(decoder.end())
      return { start: joinPieces(pieces), sizeBytes, file: file?.finish() }
    },
  }
}
