/** @module Keeps the rows of a list where they are while newer ones come: the reader asks for those. */
import { useState } from 'react'
import { countNewer, type Identified } from './count-newer.ts'
import type { DataPage } from './queries.ts'

interface SteadyPage<T> {
  readonly page: DataPage<T>
  readonly newCount: number
  showNew(): void
}

/**
 * The page as it was when it was first read.
 * @param key names the query of the page; another one is shown as it comes
 * @param latest what was read last; undefined while another page is being read
 */
export function useSteadyPage<T extends Identified>(
  key: string,
  latest: DataPage<T> | undefined,
): SteadyPage<T> | undefined {
  const [shown, setShown] = useState<{ readonly key: string; readonly page: DataPage<T> }>()
  const isCurrent = shown?.key === key
  const newCount = isCurrent && latest ? countNewer(shown.page.data, latest.data) : 0
  // Changes of the rows that are shown, such as an erasure, are taken over.
  const isStale = latest !== undefined && (!isCurrent || (newCount === 0 && shown.page !== latest))
  if (isStale) setShown({ key, page: latest })
  const page = isStale ? latest : shown?.page
  return page && { page, newCount, showNew: () => latest && setShown({ key, page: latest }) }
}
