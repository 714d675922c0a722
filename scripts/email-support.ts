/**
 * @module `bun scripts/email-support.ts caniemail.json`: reduces the data of caniemail.com to what the HTML check of the
 * sandbox needs, and writes `src/dashboard/screens/sandbox/email-support.json`. The data is `data/caniemail.json` of
 * the npm package caniemail (`npm pack caniemail@2.0.2`); the package itself is no dependency, because it brings a
 * hundred others. Run it again for newer data.
 */
import type { EmailSupport, Feature } from '../src/dashboard/screens/sandbox/support-data.ts'

/** The clients that are shown, with their names; several platforms each. */
const CLIENTS: readonly (readonly [family: string, platform: string, name: string])[] = [
  ['gmail', 'desktop-webmail', 'Gmail in a browser'],
  ['gmail', 'mobile-webmail', 'Gmail in a phone’s browser'],
  ['gmail', 'android', 'Gmail for Android'],
  ['gmail', 'ios', 'Gmail for iOS'],
  ['outlook', 'windows', 'Outlook for Windows'],
  ['outlook', 'windows-mail', 'Windows Mail'],
  ['outlook', 'macos', 'Outlook for macOS'],
  ['outlook', 'outlook-com', 'Outlook.com'],
  ['outlook', 'android', 'Outlook for Android'],
  ['outlook', 'ios', 'Outlook for iOS'],
  ['apple-mail', 'macos', 'Apple Mail for macOS'],
  ['apple-mail', 'ios', 'Apple Mail for iOS'],
  ['yahoo', 'desktop-webmail', 'Yahoo in a browser'],
  ['yahoo', 'android', 'Yahoo for Android'],
  ['yahoo', 'ios', 'Yahoo for iOS'],
  ['samsung-email', 'android', 'Samsung Email'],
]

const FAMILY_NAMES: Readonly<Record<string, string>> = {
  gmail: 'Gmail',
  outlook: 'Outlook',
  'apple-mail': 'Apple Mail',
  yahoo: 'Yahoo',
  'samsung-email': 'Samsung Email',
}

/**
 * What shows a feature in HTML and CSS, where it does not follow from its slug. `property:x`, `value:property=word`,
 * `unit:x`, `function:x`, `at:x`, `media:x`, `pseudo:x`, `combinator:x`, `element:x`, `attribute:x`, `input:x`,
 * `image:x`, `font:x`, and single names. None: it cannot be seen, or every message has it.
 */
const TOKENS: Readonly<Record<string, readonly string[]>> = {
  amp: [],
  bimi: [],
  'css-at-media-device-pixel-ratio': ['media:-webkit-device-pixel-ratio'],
  'css-at-media-hover': ['media:hover', 'media:any-hover'],
  'css-block-inline-size': ['property:block-size', 'property:inline-size'],
  'css-border': [
    'border',
    'border-width',
    'border-style',
    'border-color',
    'border-top',
    'border-bottom',
    'border-left',
    'border-right',
  ].map((name) => `property:${name}`),
  'css-border-image': ['property:border-image', 'property:border-image-source'],
  'css-border-inline-block': ['property:border-inline', 'property:border-block'],
  'css-border-inline-block-individual': ['inline-start', 'inline-end', 'block-start', 'block-end'].map(
    (side) => `property:border-${side}`,
  ),
  'css-border-inline-block-longhand': ['inline', 'block'].flatMap((axis) =>
    ['width', 'style', 'color'].map((part) => `property:border-${axis}-${part}`),
  ),
  'css-border-radius-logical': ['start-start', 'start-end', 'end-start', 'end-end'].map(
    (corner) => `property:border-${corner}-radius`,
  ),
  'css-column-layout-properties': ['columns', 'column-fill', 'column-rule', 'column-span', 'column-width'].map(
    (name) => `property:${name}`,
  ),
  'css-comments': ['css-comment'],
  'css-conic-gradient': ['function:conic-gradient'],
  'css-display-flex': ['value:display=flex', 'value:display=inline-flex'],
  'css-display-grid': ['value:display=grid', 'value:display=inline-grid'],
  'css-display-none': ['value:display=none'],
  // The three above say more.
  'css-display': [],
  'css-flex-direction': ['property:flex-direction'],
  'css-flex-wrap': ['property:flex-wrap'],
  'css-gap': ['property:gap', 'property:column-gap', 'property:row-gap'],
  'css-grid-template': [
    'property:grid-template',
    'property:grid-template-columns',
    'property:grid-template-rows',
    'property:grid-template-areas',
  ],
  'css-important': ['important'],
  'css-inert-attribute': ['attribute:inert'],
  'css-intrinsic-size': ['keyword:fit-content', 'keyword:min-content', 'keyword:max-content'],
  'css-left-right-top-bottom': ['property:left', 'property:right', 'property:top', 'property:bottom'],
  'css-linear-gradient': ['function:linear-gradient', 'function:repeating-linear-gradient'],
  'css-radial-gradient': ['function:radial-gradient', 'function:repeating-radial-gradient'],
  'css-margin': ['margin', 'margin-top', 'margin-right', 'margin-bottom', 'margin-left'].map(
    (name) => `property:${name}`,
  ),
  'css-margin-block-start-end': ['property:margin-block-start', 'property:margin-block-end'],
  'css-margin-inline-block': ['property:margin-inline', 'property:margin-block'],
  'css-margin-inline-start-end': ['property:margin-inline-start', 'property:margin-inline-end'],
  'css-modern-color': ['function:lch', 'function:oklch', 'function:lab', 'function:oklab'],
  'css-nesting': ['nesting'],
  'css-outline': ['outline', 'outline-width', 'outline-style', 'outline-color'].map((name) => `property:${name}`),
  'css-overflow': ['property:overflow', 'property:overflow-x', 'property:overflow-y'],
  'css-padding': ['padding', 'padding-top', 'padding-right', 'padding-bottom', 'padding-left'].map(
    (name) => `property:${name}`,
  ),
  'css-padding-block-start-end': ['property:padding-block-start', 'property:padding-block-end'],
  'css-padding-inline-block': ['property:padding-inline', 'property:padding-block'],
  'css-padding-inline-start-end': ['property:padding-inline-start', 'property:padding-inline-end'],
  'css-rgb': ['function:rgb'],
  'css-rgba': ['function:rgba'],
  'css-scroll-snap': ['property:scroll-snap-type', 'property:scroll-snap-align'],
  'css-selector-adjacent-sibling': ['combinator:+'],
  'css-selector-attribute': ['selector:attribute'],
  'css-selector-chaining': ['selector:chaining'],
  'css-selector-child': ['combinator:>'],
  'css-selector-class': ['selector:class'],
  'css-selector-descendant': ['combinator: '],
  'css-selector-general-sibling': ['combinator:~'],
  'css-selector-grouping': ['selector:grouping'],
  'css-selector-id': ['selector:id'],
  'css-selector-type': ['selector:type'],
  'css-selector-universal': ['selector:universal'],
  'css-sytem-ui': ['system-ui', 'ui-serif', 'ui-sans-serif', 'ui-rounded', 'ui-monospace'].map(
    (name) => `keyword:${name}`,
  ),
  'css-unit-calc': ['function:calc'],
  'css-unit-initial': ['keyword:initial'],
  'css-unit-percent': ['unit:%'],
  'css-variables': ['variable'],
  'html-anchor-links': ['anchor-link'],
  'html-button-reset': ['button:reset'],
  'html-button-submit': ['button:submit'],
  'html-comments': ['html-comment'],
  'html-doctype': [],
  'html-body': [],
  'html-h1-h6': [1, 2, 3, 4, 5, 6].map((level) => `element:h${level}`),
  'html-image-maps': ['element:map'],
  'html-lists': ['element:ul', 'element:ol', 'element:dl'],
  'html-loading-attribute': ['attribute:loading'],
  'html-mailto-links': ['mailto-link'],
  'html-meta-color-scheme': ['meta:color-scheme'],
  'html-semantics': [
    'article',
    'aside',
    'details',
    'figcaption',
    'figure',
    'footer',
    'header',
    'main',
    'mark',
    'nav',
    'section',
    'summary',
    'time',
  ].map((name) => `element:${name}`),
  'html-srcset': ['attribute:srcset', 'attribute:sizes'],
  'image-base64': ['image:data'],
  'image-jpg': ['image:jpg', 'image:jpeg'],
  'image-heif': ['image:heif', 'image:heic'],
  'image-tiff': ['image:tiff', 'image:tif'],
  'image-apng': ['image:apng'],
}

const ATTRIBUTES = new Set(
  'align aria-describedby aria-hidden aria-label aria-labelledby aria-live background cellpadding cellspacing dir height hidden lang popover required role target valign width'.split(
    ' ',
  ),
)

/** What shows a feature. */
function toTokens(slug: string): readonly string[] {
  const known = TOKENS[slug]
  if (known) return known
  const [, kind = '', name = ''] = /^(css|html|image)-(.+)$/.exec(slug) ?? []
  if (kind === 'image') return [`image:${name}`]
  if (kind === 'html') {
    if (name.startsWith('input-')) return [`input:${name.slice('input-'.length)}`]
    return [`${ATTRIBUTES.has(name) ? 'attribute' : 'element'}:${name}`]
  }
  const prefixes = [
    ['at-media-', 'media:'],
    ['at-', 'at:'],
    ['pseudo-class-', 'pseudo:'],
    ['pseudo-element-', 'pseudo:'],
    ['unit-', 'unit:'],
    ['function-', 'function:'],
  ] as const
  const prefix = prefixes.find(([start]) => name.startsWith(start))
  return [prefix ? prefix[1] + name.slice(prefix[0].length) : `property:${name}`]
}

interface Source {
  readonly last_update_date: string
  readonly data: readonly {
    readonly slug: string
    readonly title: string
    readonly stats: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>>
    readonly notes_by_num: Readonly<Record<string, string>> | null
  }[]
}

/** Otherwise JSON.parse would put names that are whole numbers first: versions are in the order of their tests. */
const keepOrder = (json: string): string => json.replace(/"(\d+)":/g, '"v$1":')

/** Notes are text; links in them are reduced to their words. */
const toPlainText = (note: string): string => note.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '')

function reduce({ last_update_date: updatedAt, data }: Source): EmailSupport {
  const features = data.flatMap((feature): Feature[] => {
    const tokens = toTokens(feature.slug)
    const numbers = new Map<string, number>()
    const cells = CLIENTS.map(([family, platform]) => {
      const tests = Object.values(feature.stats[family]?.[platform] ?? {})
      const [support = 'u', ...notes] = (tests.at(-1) ?? 'u').split(/[\s#]+/)
      const isFine = support === 'y' || support === 'u'
      return { support, notes: isFine ? [] : notes.filter((note) => feature.notes_by_num?.[`v${note}`]) }
    })
    if (tokens.length === 0 || cells.every(({ support }) => support === 'y' || support === 'u')) return []
    for (const { notes } of cells) for (const note of notes) if (!numbers.has(note)) numbers.set(note, numbers.size)
    return [
      {
        slug: feature.slug,
        title: feature.title.trim(),
        tokens,
        support: cells.map(({ support }) => support).join(''),
        notes: [...numbers.keys()].map((note) => toPlainText(feature.notes_by_num?.[`v${note}`] ?? '')),
        noted: cells.map(({ notes }) => notes.map((note) => numbers.get(note) ?? 0)),
      },
    ]
  })
  return {
    updatedAt: updatedAt.slice(0, 10),
    clients: CLIENTS.map(([family, , name]) => ({ family: FAMILY_NAMES[family] ?? family, name })),
    features,
  }
}

const [path = ''] = process.argv.slice(2)
const reduced = reduce(JSON.parse(keepOrder(await Bun.file(path).text())) as Source)
const target = `${import.meta.dir}/../src/dashboard/screens/sandbox/email-support.json`
await Bun.write(target, `${JSON.stringify(reduced)}\n`)
console.log(`${reduced.features.length} features`)
