import { messages, MOST_BYTES } from './messages.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { createPartFile } from '#platform/content/part-file.ts'
import { slicesOfFrames } from '#platform/content/frames.ts'
import { readFileSync, rmSync, writeFileSync, mkdirSync } from 'node:fs'
const name = process.argv[2] ?? ''
const m = messages.find((x) => x.name.includes(name))
if (!m) throw 1
const dir = '/tmp/tmp.yAXQcdq6AN/one'; rmSync(dir, { recursive: true, force: true }); mkdirSync(dir)
const f = createPartFile(dir + '/raw.zst')
let sent = 0
for (const p of m.pieces()) { const b = Buffer.from(p as string).subarray(0, MOST_BYTES - sent); sent += b.length; f.write(b) }
f.finish()
if (process.argv[3] !== 'child') {
  const c = Bun.spawnSync(['bun', '--smol', import.meta.path, name, 'child'], { stdout: 'inherit', stderr: 'inherit' })
  process.exit(0)
}
Bun.gc(true)
const hwm = (k: string) => Number(new RegExp(`^${k}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))![1]) / 1024
await Bun.sleep(300)
writeFileSync('/proc/self/clear_refs', '5')
const before = hwm('VmRSS')
let n = 0
const t = performance.now()
try {
  const r = await parseMessage({ slices: () => slicesOfFrames(dir + '/raw.zst') }, { mailFrom: '', newFile: () => createPartFile(`${dir}/${n++}`) })
  console.log(r.attachments.length, r.text?.length, r.html?.length, 'files', n)
} catch (e) { console.log(String(e)) }
console.log(m.name, 'ms', (performance.now() - t).toFixed(0), 'peak', (hwm('VmHWM') - before).toFixed(0), 'after', (hwm('VmRSS') - before).toFixed(0))
Bun.gc(true); await Bun.sleep(1000); console.log('after gc', (hwm('VmRSS') - before).toFixed(0))
