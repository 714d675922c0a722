/**
 * @module The regular expressions of the sources that match text from outside: all except those excluded here, with the
 * reason.
 */
import { type FoundRegex, findRegexes, recordBuiltOnImport } from './find.ts'

/** Programs for developers, which match their own output, and what reads our documents when it is built. */
const EXCLUDED = /^bench\/|^app\/docs\/documents\.ts$/

/** Expressions built from values that only a running service has. Each was reviewed. */
export const BUILT_LATER: Readonly<Record<string, string>> = {
  'features/reporting/insights/check.ts': 'escaped names of figures, separated by |',
  'features/lifecycle/privacy/person.ts': 'escaped spellings of one address, separated by |',
  'platform/http/route-table.ts': 'our own routes: escaped segments and [^/]+, separated by slashes',
  'platform/template/engine.ts': 'one of two words of ours',
}

export interface OutsideRegexes {
  /** Each once, even if it occurs in several places. */
  readonly regexes: readonly FoundRegex[]
  /** Files whose expressions are built after import. */
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
