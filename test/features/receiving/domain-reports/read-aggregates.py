"""Reads DMARC aggregates with Python's own zip, gzip and XML, and prints sums as JSON: an independent reading."""
import gzip, ipaddress, json, os, sys, zipfile
import xml.etree.ElementTree as ET

def local(element):
    return element.tag.split('}')[-1]

def child(element, *path):
    for name in path:
        element = next((e for e in (element if element is not None else []) if local(e) == name), None)
    return '' if element is None else (element.text or '').strip()

sums = {}
for name in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], name)
    if name.endswith('.zip'):
        with zipfile.ZipFile(path) as z:
            data = z.read(z.namelist()[0])
    else:
        data = (gzip.open if name.endswith('.gz') else open)(path, 'rb').read()
    root = ET.fromstring(data)
    organisation = child(root, 'report_metadata', 'org_name')
    for record in (e for e in root if local(e) == 'record'):
        row = next(e for e in record if local(e) == 'row')
        key = '|'.join([
            organisation,
            str(ipaddress.ip_address(child(row, 'source_ip'))),
            child(row, 'policy_evaluated', 'disposition') or 'none',
            child(row, 'policy_evaluated', 'dkim'),
            child(row, 'policy_evaluated', 'spf'),
        ])
        sums[key] = sums.get(key, 0) + int(child(row, 'count'))
json.dump(sums, sys.stdout)
