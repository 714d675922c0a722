/** @module Which parts of an email are tracked, and the number by which that is stored. */

/** Undefined: the account's default. */
export interface TrackingChoice {
  readonly opens?: boolean | undefined
  readonly clicks?: boolean | undefined
}

export type TrackedParts = Readonly<Record<'opens' | 'clicks', boolean>>
export const NOT_TRACKED: TrackedParts = { opens: false, clicks: false }

/** `opens,clicks`. The position is the stored code: only append. The first two are those of a flag for both. */
const CODES = 'false,false true,true true,false false,true true, false, ,true ,false'.split(' ')

/** The stored code; null: no choice. */
export function toTrackingCode({ opens, clicks }: TrackingChoice = {}): number | null {
  const code = CODES.indexOf(`${opens ?? ''},${clicks ?? ''}`)
  return code === -1 ? null : code
}

export function toTrackingChoice(code: number): TrackingChoice {
  const [opens, clicks] = (CODES[code] ?? ',').split(',').map((part) => (part === '' ? undefined : part === 'true'))
  return { opens, clicks }
}
