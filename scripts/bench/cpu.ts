/** @module Reads from /proc the processor time of a process with its children. */
import { readdirSync, readFileSync } from 'node:fs'

/** Clock ticks per second in /proc, the same on all current Linux systems. */
const TICKS_PER_SECOND = 100

/** Places after the name of a process in /proc/PID/stat: proc(5). */
const PARENT_FIELD = 1
const TIME_FIELDS = [11, 12, 13, 14]

/**
 * Returns the user and system time in ms of these processes and all their descendants, also of those that have ended
 * and for which their parent has waited.
 */
export function readCpuMs(pids: readonly number[]): number {
  const processes = new Map(readdirSync('/proc').flatMap((name) => readProcess(Number(name))))
  const belongs = (pid: number): boolean => {
    if (pids.includes(pid)) return true
    const parent = processes.get(pid)?.parent
    return parent !== undefined && parent > 1 && belongs(parent)
  }
  let ticks = 0
  for (const [pid, process] of processes) if (belongs(pid)) ticks += process.ticks
  return (ticks * 1000) / TICKS_PER_SECOND
}

function readProcess(pid: number): (readonly [number, { readonly parent: number; readonly ticks: number }])[] {
  if (!Number.isInteger(pid)) return []
  try {
    // The name in parentheses may hold any character.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    const ticks = TIME_FIELDS.reduce((sum, field) => sum + Number(fields[field]), 0)
    return [[pid, { parent: Number(fields[PARENT_FIELD]), ticks }]]
  } catch {
    // The process has ended since the folder was read.
    return []
  }
}
