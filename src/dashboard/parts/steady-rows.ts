/** @module Rows that stay where they are while a list is read again; new ones are offered. */
import { useState } from 'react'
import { mergeRows, type Row } from './merge-rows.ts'

interface Shown<T> {
  readonly key: string
  readonly rows: readonly T[]
}

export interface SteadyRows<T> {
  readonly rows: readonly T[]
  readonly newCount: number
  /** Shows the new ones. */
  show(): void
}

/**
 * @param key changes when other rows are asked for: another page or filter
 * @param latest as read last; undefined while they are not known
 */
export function useSteadyRows<T extends Row>(key: string, latest: readonly T[] | undefined): SteadyRows<T> {
  const [shown, setShown] = useState<Shown<T>>()
  const current = shown?.key === key && shown.rows.length > 0 ? shown : undefined
  if (latest && !current && (shown?.key !== key || latest.length > 0)) setShown({ key, rows: latest })
  const show = () => latest && setShown({ key, rows: latest })
  if (!current || !latest) return { rows: latest ?? [], newCount: 0, show }
  return { ...mergeRows(current.rows, latest), show }
}
