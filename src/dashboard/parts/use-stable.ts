/** @module A value that stays the same object while its JSON is the same. */
import { useMemo } from 'react'

export function useStable<Value>(value: Value): Value {
  const key = JSON.stringify(value)
  return useMemo(() => JSON.parse(key) as Value, [key])
}
