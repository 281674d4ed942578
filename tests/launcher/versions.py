#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the built program says of itself: lockstep --version, also with --json.

versions.py PROGRAM Versions
"""
import datetime
import json
import os
import re
import shutil
import subprocess

from program_test import ProgramTest, main

ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
LINKS = {"DESCRIBES", "DEPENDS_ON", "DYNAMIC_LINK", "STATIC_LINK", "OPTIONAL_DEPENDENCY_OF"}


class Versions(ProgramTest):
    def said(self, *arguments, **options):
        result = self.run_command([self.program, "--version", *arguments], **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def everything(self):
        return json.loads(self.said("--json"))

    def test_plain_version_is_one_line(self):
        self.assertRegex(self.said(), r"^lockstep \d+\.\d+\.\d+\n$")
        self.assertEqual(self.said(), f"lockstep {self.everything()['lockstep']['version']}\n")
        self.assertIn("--json", self.run_command([self.program, "--version", "--help"]).stdout)
        self.assertIn("--json", self.run_command([self.program, "--help"]).stdout)
        self.expect_error(self.run_command([self.program, "--version", "--jsno"]), 2, "--json")

    def test_the_build_and_what_decides_bits(self):
        everything = self.everything()
        build = everything["lockstep"]
        self.assertRegex(build["commit"], r"^([0-9a-f]{40}(-dirty)?)?$")
        self.assertIn("-ffp-contract=off", build["flags"])
        cpu = everything["backends"]["cpu"]
        self.assertIn("-march=", cpu["instruction_sets"][cpu["used"]])
        for name in ("cuda", "mpi", "nccl"):
            self.assertIsInstance(everything["backends"][name]["built"], bool)

    def test_what_is_linked_is_listed_with_its_file(self):
        everything = self.everything()
        packages = {package["name"]: package for package in everything["sbom"]["packages"]}
        libraries = {library["name"]: library for library in everything["libraries"]}
        for library in libraries.values():
            self.assertTrue(os.path.isfile(library["file"]), library)
        dynamic = subprocess.run(["readelf", "--dynamic", "--wide", self.program], text=True,
                                 capture_output=True, check=True).stdout
        needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
        self.assertIn("libz.so.1", needed)
        for name in needed:
            self.assertIn(name, libraries)
            self.assertIn(libraries[name].get("package"), packages, name)
        self.assertEqual(libraries["libz.so.1"]["version"].split(".")[:2],
                         packages["zlib"]["versionInfo"].split(".")[:2])

    def test_mpi_says_its_version_without_being_started(self):
        everything = self.everything()
        if not everything["backends"]["mpi"]["built"]:
            self.assertFalse([lib for lib in everything["libraries"] if lib["name"].startswith("libmpi.")])
            return
        (mpi,) = [lib for lib in everything["libraries"] if lib["name"].startswith("libmpi.")]
        self.assertIn(everything["backends"]["mpi"]["headers"].split()[-1], mpi["version"])
        # Where MPI_Init would fail, too.
        broken = json.loads(self.said("--json", environment={"OMPI_MCA_btl": "none-of-these",
                                                             "OMPI_MCA_pml": "none-of-these"}))
        self.assertEqual(broken["libraries"], everything["libraries"])

    def test_the_sbom_is_an_spdx_document(self):
        sbom = self.everything()["sbom"]
        self.assertEqual(sbom["spdxVersion"], "SPDX-2.3")
        self.assertEqual(sbom["dataLicense"], "CC0-1.0")
        self.assertEqual(sbom["SPDXID"], "SPDXRef-DOCUMENT")
        self.assertTrue(sbom["name"])
        self.assertRegex(sbom["documentNamespace"], r"^https?://[^\s#]+$")
        created = datetime.datetime.strptime(sbom["creationInfo"]["created"], "%Y-%m-%dT%H:%M:%SZ")
        self.assertLess(created, datetime.datetime.utcnow() + datetime.timedelta(days=1))
        for creator in sbom["creationInfo"]["creators"]:
            self.assertRegex(creator, r"^(Tool|Person|Organization): \S")
        ids = {"SPDXRef-DOCUMENT"}
        for package in sbom["packages"]:
            self.assertTrue(ID.fullmatch(package["SPDXID"]), package)
            self.assertNotIn(package["SPDXID"], ids)
            ids.add(package["SPDXID"])
            for key in ("name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"):
                self.assertTrue(package[key], package)
            self.assertIs(package["filesAnalyzed"], False)
            for reference in package["externalRefs"]:
                self.assertEqual(reference["referenceCategory"], "PACKAGE-MANAGER")
                self.assertRegex(reference["referenceLocator"], r"^pkg:generic/[^@\s]+(@\S+)?$")
        related = set()
        for link in sbom["relationships"]:
            self.assertIn(link["relationshipType"], LINKS)
            self.assertLessEqual({link["spdxElementId"], link["relatedSpdxElement"]}, ids)
            related |= {link["spdxElementId"], link["relatedSpdxElement"]}
        self.assertEqual(related, ids)
        described = [link["relatedSpdxElement"] for link in sbom["relationships"]
                     if link["relationshipType"] == "DESCRIBES"]
        self.assertEqual(described, ["SPDXRef-Package-lockstep"])

    def test_the_sbom_depends_on_the_program_alone(self):
        copy = self.folder / "other/lockstep"
        copy.parent.mkdir()
        shutil.copy(self.program, copy)
        other = self.run_command([copy, "--version", "--json"], {"TZ": "Asia/Tokyo", "LC_ALL": "C"})
        self.assertEqual(json.loads(other.stdout)["sbom"], self.everything()["sbom"])


if __name__ == "__main__":
    main()
