/** @module The feedback reports in test/corpus/arf, as providers send them, with placeholders for our own values. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = join(import.meta.dir, '../../corpus/arf')

/** Lists the names of all reports. */
export const listShapeNames = (): string[] =>
  readdirSync(FOLDER)
    .map((file) => file.replace(/\.eml$/, ''))
    .sort()

/** Values for the placeholders of a report. */
export interface ShapeValues {
  readonly return_path: string
  readonly recipient: string
  readonly other_recipient: string
  /** To header of the reported message. */
  readonly to: string
  readonly message_id: string
  /** https URL and mailto address of List-Unsubscribe. */
  readonly unsubscribe: string
  readonly unsubscribe_address: string
}

/** Returns a report as received; throws when a placeholder has no value. */
export function readShape(name: string, values: ShapeValues, lineEnd = '\r\n'): Uint8Array {
  const text = readFileSync(join(FOLDER, `${name}.eml`), 'utf8').replace(/\{\{(\w+)\}\}/g, (_, key: string) => {
    const value = Object.entries(values).find(([known]) => known === key)?.[1]
    if (value === undefined) throw new Error(`${name}.eml has a place for ${key}, which nothing is known of`)
    return value
  })
  return Buffer.from(text.replaceAll('\n', lineEnd))
}
