/** @module The filters of the suppression list in the URL. */
import { keep, readText, type Search } from '../../parts/search.ts'

export interface SuppressionFilters {
  readonly email?: string
  readonly reason?: string
}

export const parseSuppressionFilters = ({ email, reason }: Search): SuppressionFilters => ({
  ...keep('email', readText(email)),
  ...keep('reason', readText(reason)),
})
