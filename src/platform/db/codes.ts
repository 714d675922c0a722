/**
 * @module Names that are stored as small numbers: a name's code is its position in a list, so lists of stored names
 * only ever grow at the end.
 */

/**
 * Maps each name to its code and back. Both directions throw for an unknown one, which is a bug or a database of
 * another version.
 * @param what what the names stand for, used in the error messages
 */
export function codesOf<Name extends string>(
  what: string,
  names: readonly Name[],
): { readonly codeOf: (name: Name) => number; readonly nameOf: (code: number) => Name } {
  const codes = new Map<Name, number>(names.map((name, code) => [name, code]))
  return {
    codeOf(name) {
      const code = codes.get(name)
      if (code === undefined) throw new TypeError(`unknown ${what} ${name}`)
      return code
    },
    nameOf(code) {
      const name = names[code]
      if (name === undefined) throw new TypeError(`unknown ${what} code ${code}`)
      return name
    },
  }
}
