/** @module Merges our terms into the SPF records that exist at a name, of which there may be only one. Pure. */

/**
 * One record with the terms of all `existing` ones and ours. Ours come first: they then pass whatever an existing term
 * matches, and before look-ups that could fail. The first `all` or `redirect` decides about other senders, as before.
 * @param existing at least one record
 * @param ours the record that we ask for without others
 */
export function mergeSpf(existing: readonly string[], ours: string): string {
  const terms = new Set(listTerms(ours).filter((term) => !isLast(term)))
  for (const term of existing.flatMap(listTerms)) if (!isLast(term)) terms.add(term)
  const last = existing.flatMap(listTerms).find(isLast)
  return ['v=spf1', ...terms, ...(last === undefined ? [] : [last])].join(' ')
}

const listTerms = (record: string): string[] => record.trim().split(/\s+/).slice(1)

/** RFC 7208 §5.1, §6.1: `all` and `redirect=` end the evaluation. */
const isLast = (term: string): boolean => /^([-+~?]?all$|redirect=)/i.test(term)
