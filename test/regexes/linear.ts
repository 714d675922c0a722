/**
 * @module Expressions whose analysis takes long and which are known to be linear: `bun scripts/regexes.ts` writes
 * linear.json, and the test reads it.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FoundRegex } from './find.ts'

export const LINEAR_FILE = join(import.meta.dir, 'linear.json')

export const formatRegex = ({ source, flags }: FoundRegex): string => `/${source}/${flags}`

/** Reads the expressions that were analysed before. */
export const readKnownLinear = (): string[] => JSON.parse(readFileSync(LINEAR_FILE, 'utf8')) as string[]
