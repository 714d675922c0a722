/**
 * @module Priorities for systemd's journal (sd-daemon(3)): a line that begins with `<3>` is an error there. Only where standard error is the journal itself;
 * terminals, files and containers see the lines as they are.
 */
import { fstatSync } from 'node:fs'
import { readJournalStream } from './config.ts'

const STDERR = 2

/** By the names of levels in the log; what is not here has the journal's default, information. */
const PRIORITIES: Readonly<Record<string, string>> = {
  fatal: '<2>',
  error: '<3>',
  warn: '<4>',
  debug: '<7>',
  trace: '<7>',
}

/**
 * Whether standard error is the journal. A process that a service starts inherits the variable, and may write elsewhere.
 * @param stream device and inode of the journal's socket, `8:1234`
 */
export function isJournal(stream: string | undefined = readJournalStream(), fd = STDERR): boolean {
  if (stream === undefined) return false
  try {
    const { dev, ino } = fstatSync(fd)
    return stream === `${dev}:${ino}`
  } catch {
    return false
  }
}

/** A text of any lines with the priority of a level before each. */
export const addPriority = (level: string, text: string): string => text.replace(/^(?=.)/gm, PRIORITIES[level] ?? '')
