/** @module The account and its plan, as the settings show them. */
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { UNLIMITED } from '../../parts/format.ts'

export const useAccount = () => useData(read.account.get())

export const formatLimit = (limit: number): string => (limit >= UNLIMITED ? 'Unlimited' : limit.toLocaleString())

/** How much is used, and of how much if that is limited. */
export const formatUsage = (used: number, limit: number): string =>
  isLimited(limit) ? `${used.toLocaleString()} of ${formatLimit(limit)}` : used.toLocaleString()

export const isLimited = (limit: number): boolean => limit < UNLIMITED

/** Leaves the dashboard. Only web pages are opened: the URL comes from another host. */
export function openProviderPage(url: string): void {
  const { protocol } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:') throw new Error('The payment provider returned no web page.')
  location.assign(url)
}
