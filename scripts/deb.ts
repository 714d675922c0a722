/**
 * @module The Debian package of a built executable: `contrib/debian` and the unit of `contrib/systemd`, with completion
 * and man page made from the commands. Needs Debian's dpkg-deb; the same commit gives the same bytes.
 */
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { formatBash, formatFish, formatManPage, formatZsh } from './command-files.ts'
import { ROOT, run } from './release-tools.ts'

export const ARCHITECTURES: Readonly<Record<string, string>> = { 'linux-x64': 'amd64', 'linux-arm64': 'arm64' }

export interface DebInputs {
  readonly version: string
  /** Commit time in Unix seconds. */
  readonly epoch: number
  /** amd64 or arm64. */
  readonly architecture: string
  readonly executable: string
  /** Licences of what the executable contains. */
  readonly licences: string
}

const contrib = (path: string): string => readFileSync(join(ROOT, 'contrib', path), 'utf8')

/** A pre-release comes before its release: 1.0.0~rc.1. */
const toDebianVersion = (version: string): string => version.replace('-', '~')

/** GitHub would rename a file with `~`. */
export const debName = ({ version, architecture }: Pick<DebInputs, 'version' | 'architecture'>): string =>
  `tassis_${version}_${architecture}.deb`

/** The unit of contrib, with the settings of the package in place of variables. */
export const formatUnit = (): string =>
  contrib('systemd/tassis.service')
    .replace(/^# \/etc.*\n/, '')
    .replaceAll(/^(#.*\n)*Environment=.*\n/gm, '')
    .replace(
      /^ExecStart=.*$/m,
      `# A machine sends nothing before its name is set.
ExecCondition=/usr/bin/grep --quiet "^hostname *=" /etc/tassis/tassis.toml
ExecStart=/usr/lib/tassis/tassis serve
Environment=TASSIS_CONFIG=/etc/tassis/tassis.toml`,
    )
    .replace('[Unit]\n', '[Unit]\nDocumentation=man:tassis(1)\n')

/** Returns the package. @param folder an empty one for its files */
export function buildDeb(inputs: DebInputs, folder: string): Uint8Array<ArrayBuffer> {
  const { epoch, architecture } = inputs
  const version = toDebianVersion(inputs.version)
  // The commit names who made the release, on any machine.
  const maintainer = run(['git', 'log', '-1', '--format=%an <%ae>'])
  const date = new Date(epoch * 1000).toUTCString().replace('GMT', '+0000')
  const gzip = (text: string): Uint8Array => Bun.gzipSync(text, { level: 9 })
  const files: Readonly<Record<string, string | Uint8Array>> = {
    'usr/bin/tassis': contrib('debian/tassis'),
    'usr/lib/systemd/system/tassis.service': formatUnit(),
    'usr/lib/sysusers.d/tassis.conf': contrib('debian/sysusers.conf'),
    'usr/lib/tmpfiles.d/tassis.conf': contrib('debian/tmpfiles.conf'),
    'etc/tassis/tassis.toml': contrib('debian/tassis.toml'),
    'usr/share/bash-completion/completions/tassis': formatBash(),
    'usr/share/zsh/vendor-completions/_tassis': formatZsh(),
    'usr/share/fish/vendor_completions.d/tassis.fish': formatFish(),
    'usr/share/man/man1/tassis.1.gz': gzip(formatManPage(version, epoch)),
    'usr/share/lintian/overrides/tassis': contrib('debian/lintian-overrides'),
    'usr/share/doc/tassis/copyright': `${readFileSync(join(ROOT, 'LICENSE'), 'utf8')}
The licences of what the executable contains are in THIRD-PARTY-LICENSES.txt.gz.\n`,
    'usr/share/doc/tassis/THIRD-PARTY-LICENSES.txt.gz': gzip(inputs.licences),
    'usr/share/doc/tassis/CHANGELOG.md.gz': gzip(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')),
    'usr/share/doc/tassis/changelog.gz': gzip(
      `tassis (${version}) stable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- ${maintainer}  ${date}\n`,
    ),
  }
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  mkdirSync(join(folder, 'usr/lib/tassis'))
  cpSync(inputs.executable, join(folder, 'usr/lib/tassis/tassis'))
  const kib = Number(run(['du', '--summarize', '--apparent-size', '--block-size=KiB', folder]).split(/K/)[0])
  const sums = run(['sh', '-c', 'find usr -type f | LC_ALL=C sort | xargs md5sum'], { cwd: folder })
  const control: Readonly<Record<string, string>> = {
    control: `Package: tassis
Version: ${version}
Architecture: ${architecture}
Maintainer: ${maintainer}
Installed-Size: ${kib}
Depends: libc6 (>= 2.31), systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles
Recommends: libssl3t64 | libssl3, ca-certificates
Section: mail
Priority: optional
Description: transactional email service in one process on SQLite
 Sends email that your applications hand over by HTTP or SMTP, signs it,
 delivers it to the servers of its recipients, and reports what became of it.
 Receives bounces, complaints and mail to your domains. It has a dashboard.
`,
    conffiles: '/etc/tassis/tassis.toml\n',
    md5sums: `${sums}\n`,
    ...Object.fromEntries(['postinst', 'prerm', 'postrm'].map((name) => [name, contrib(`debian/${name}`)])),
  }
  mkdirSync(join(folder, 'DEBIAN'))
  for (const [name, content] of Object.entries(control)) writeFileSync(join(folder, 'DEBIAN', name), content)
  run(['chmod', '--recursive', 'u=rwX,go=rX', folder])
  for (const path of ['usr/bin/tassis', 'usr/lib/tassis/tassis', 'DEBIAN/postinst', 'DEBIAN/prerm', 'DEBIAN/postrm'])
    chmodSync(join(folder, path), 0o755)
  chmodSync(join(folder, 'etc/tassis/tassis.toml'), 0o640)
  const deb = `${folder}.deb`
  // One thread and a named compression: defaults depend on the machine. Higher levels take minutes for 6 % less.
  run(['dpkg-deb', '--root-owner-group', '-Zxz', '-z0', '--threads-max=1', '--build', folder, deb], {
    env: { SOURCE_DATE_EPOCH: String(epoch) },
  })
  return readFileSync(deb)
}
