/** @module The time zone of all dates on the screens, which the reader chooses. */
import { useSyncExternalStore } from 'react'

/** Of the browser's storage: what was chosen, and the zone of the account as it was last known. */
const KEY = 'tassis-time-zone'
const ACCOUNT_KEY = 'tassis-account-time-zone'
const listeners = new Set<() => void>()

/** An IANA name; undefined: that of the browser. */
let chosen = read()

function read(): string | undefined {
  const choice = getChoice()
  const name = (choice === 'account' ? globalThis.localStorage?.getItem(ACCOUNT_KEY) : choice) ?? ''
  return isZone(name) ? name : undefined
}

function getChoice(): string {
  return globalThis.localStorage?.getItem(KEY) ?? ''
}

function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

export const getZone = (): string | undefined => chosen

export const setZone = (choice: string): void => store(KEY, choice)

/** Dates follow it if the reader chose the zone of the account. */
export const setAccountZone = (name: string): void => store(ACCOUNT_KEY, name)

function store(key: string, value: string): void {
  localStorage.setItem(key, value)
  chosen = read()
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** The zone that was chosen; what uses it is shown again when it changes. */
export const useZone = (): string | undefined => useSyncExternalStore(subscribe, getZone)

/** `account`, or an IANA name; empty: the zone of the browser. */
export const useZoneChoice = (): string => useSyncExternalStore(subscribe, getChoice)

/** The zone of the browser. */
export const getBrowserZone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone

/** `2026-11-28T15:04:00` in the zone, as fields of the type `datetime-local` have it. */
export const toLocalTime = (at: Date, zone = chosen): string =>
  new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium', timeZone: zone })
    .format(at)
    .replace(' ', 'T')

/** The instant of a local time in the zone, such as `2026-11-28T15:04`; NaN for what is no time. */
export function parseLocalTime(local: string, zone = chosen): Date {
  if (zone === undefined) return new Date(local)
  const asUtc = new Date(`${local}Z`)
  if (Number.isNaN(asUtc.getTime())) return asUtc
  const offsetAt = (at: Date) =>
    new Date(`${toLocalTime(at, zone)}Z`).getTime() - Math.floor(at.getTime() / 1000) * 1000
  // Near a change of the offset the first guess may be an hour off.
  const guess = new Date(asUtc.getTime() - offsetAt(asUtc))
  return new Date(asUtc.getTime() - offsetAt(guess))
}

/** As `/v1` takes it. What is no time, such as 31 February, stays as it was typed: the server names the problem. */
export function toInstant(local: string, typed = local): string {
  const at = parseLocalTime(local)
  return Number.isNaN(at.getTime()) ? typed : at.toISOString()
}
