/** @module A QR code. It is loaded only when one is shown. */
import { encode } from 'uqr'
import { toQrPath } from './qr-path.ts'

/** Light modules around the code (ISO/IEC 18004: four). */
const BORDER = 4
const SIZE_PX = 220

interface QrCodeProps {
  readonly text: string
  /** What it is, for screen readers. */
  readonly label: string
}

/** Dark on white in both colour schemes: cameras expect that. */
export function QrCode({ text, label }: QrCodeProps) {
  const { data, size } = encode(text, { border: BORDER, ecc: 'M' })
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${size} ${size}`}
      width={SIZE_PX}
      height={SIZE_PX}
      shapeRendering="crispEdges"
      style={{ maxWidth: '100%', height: 'auto' }}
    >
      <rect width={size} height={size} fill="#fff" />
      <path d={toQrPath(data)} fill="#000" />
    </svg>
  )
}
