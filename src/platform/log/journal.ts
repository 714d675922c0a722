/**
 * @module Priorities for systemd's journal (sd-daemon(3)), which reads a line that begins with `<3>` as an error.
 * Priorities are added only when standard error is the journal itself; terminals, files and containers get plain
 * lines.
 */
import { fstatSync } from 'node:fs'
import { attempt } from '#platform/attempt.ts'
import { readJournalStream } from '#platform/settings/config.ts'

const STDERR = 2

/** Priorities by log level. Lines of any other level get no priority, so the journal records them as information. */
const PRIORITIES: Readonly<Record<string, string>> = {
  fatal: '<2>',
  error: '<3>',
  warn: '<4>',
  debug: '<7>',
  trace: '<7>',
}

/**
 * Whether standard error is the journal. The variable alone does not prove this, because a child process of a service
 * inherits the variable but may write elsewhere.
 * @param stream device and inode of the journal's socket, `8:1234`
 */
export function isJournal(stream: string | undefined = readJournalStream(), fd = STDERR): boolean {
  const socket = stream === undefined ? undefined : attempt(() => fstatSync(fd))
  return socket !== undefined && stream === `${socket.dev}:${socket.ino}`
}

/** Prefixes each line of the text with the priority of a level. */
export const addPriority = (level: string, text: string): string => text.replace(/^(?=.)/gm, PRIORITIES[level] ?? '')
