/**
 * @module The bundle inside the executable. `scripts/build.ts` replaces this module by one that has it; in a clone
 * there is none.
 */

/** The encodings that each file has. */
export const ENCODINGS = ['br', 'gzip', 'identity'] as const
export type Encoding = (typeof ENCODINGS)[number]

export interface EmbeddedFile {
  readonly name: string
  /** Path of the content in each encoding. */
  readonly paths: Readonly<Record<Encoding, string>>
}

export interface EmbeddedBundle {
  readonly script: string
  readonly style: string
  readonly files: readonly EmbeddedFile[]
}

export const embeddedBundle: EmbeddedBundle | undefined = undefined
