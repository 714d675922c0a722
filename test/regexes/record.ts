/** @module A program: imports modules and prints the regular expressions that they build meanwhile, as JSON. Arguments: the folder, and files in it. */
const [, , folder = '', ...files] = process.argv

const found: { place: string; source: string; flags: string }[] = []

/** `file:line` below the folder from which this is called. */
const callerPlace = (): string | undefined => {
  const line = (new Error().stack ?? '').split('\n').find((frame) => frame.includes(folder))
  return line && /^[^:]+:\d+/.exec(line.slice(line.indexOf(folder) + folder.length))?.[0]
}

globalThis.RegExp = new Proxy(RegExp, {
  construct(target, args, newTarget) {
    const made = Reflect.construct(target, args, newTarget) as RegExp
    const place = callerPlace()
    if (place !== undefined) found.push({ place, source: made.source, flags: made.flags })
    return made
  },
})
for (const file of files) await import(`${folder}${file}`)
process.stdout.write(JSON.stringify(found))
process.exit()
