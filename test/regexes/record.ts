/**
 * @module A program that imports modules and prints, as JSON, the regular expressions that they build during import.
 * Arguments: the folder, and files in it.
 */
const [, , folder = '', ...files] = process.argv

const found: { place: string; source: string; flags: string }[] = []

/** `file:line` below the folder of the calling code. */
const callerPlace = (): string | undefined => {
  const line = (new Error().stack ?? '').split('\n').find((frame) => frame.includes(folder))
  return line && /^[^:]+:\d+/.exec(line.slice(line.indexOf(folder) + folder.length))?.[0]
}

globalThis.RegExp = new Proxy(RegExp, {
  construct(target, args, newTarget) {
    const regex = Reflect.construct(target, args, newTarget) as RegExp
    const place = callerPlace()
    if (place !== undefined) found.push({ place, source: regex.source, flags: regex.flags })
    return regex
  },
})
for (const file of files) await import(`${folder}${file}`)
process.stdout.write(JSON.stringify(found))
process.exit()
