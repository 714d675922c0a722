/** @module The expressions of the sources that meet text from outside: all but those that stand here, with the reason. */
import { type FoundRegex, findRegexes, recordBuiltOnImport } from './find.ts'

/** Programs for developers, which match their own output. */
const EXCLUDED = /^bench\//

/** Expressions that are built from what only a running service has. Each was read. */
export const BUILT_LATER: Readonly<Record<string, string>> = {
  'features/reporting/insights/text-check.ts': 'escaped names of figures, parted by |',
  'features/lifecycle/privacy/person.ts': 'escaped spellings of one address, parted by |',
  'platform/http/route-table.ts': 'our own routes: escaped segments and [^/]+, parted by slashes',
  'platform/template/engine.ts': 'one of two words of ours',
}

export interface OutsideRegexes {
  /** Each once, though it may stand at several places. */
  readonly regexes: readonly FoundRegex[]
  /** Files with expressions that are built later than at import. */
  readonly builtLater: readonly string[]
}

export async function findOutsideRegexes(): Promise<OutsideRegexes> {
  const { literals, built } = await findRegexes((file) => EXCLUDED.test(file))
  const recorded = await recordBuiltOnImport([...new Set(built.map(fileOf))])
  const places = new Set(recorded.map(({ place }) => place))
  return {
    regexes: [
      ...new Map([...literals, ...recorded].map((regex) => [`${regex.source}/${regex.flags}`, regex])).values(),
    ],
    builtLater: built
      .filter((place) => !places.has(place))
      .map(fileOf)
      .toSorted(),
  }
}

const fileOf = (place: string): string => place.slice(0, place.indexOf(':'))
