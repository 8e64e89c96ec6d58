package lint

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkComments wants a comment on every exported type, function, method,
// constant and variable (one for a group is enough), on the fields of every
// exported Config struct, and on every package.
func checkComments(t *Tree) []Problem {
	ps := &problems{tree: t}
	for _, dir := range t.dirs() {
		files := t.files(dir)
		described := len(files) == 0
		for _, f := range files {
			described = described || f.Syntax.Doc != nil
			for _, decl := range f.Syntax.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					ps.uncommentedFunc(decl)
				case *ast.GenDecl:
					ps.uncommentedGroup(decl)
				}
			}
		}
		if !described {
			ps.add(dir, "no file has a package comment: say what the package guarantees, assumes and does not do")
		}
	}
	return ps.sorted()
}

func (ps *problems) uncommentedFunc(f *ast.FuncDecl) {
	if f.Doc != nil || !f.Name.IsExported() {
		return
	}
	name := f.Name.Name
	if f.Recv != nil {
		receiver := receiverName(f)
		if !ast.IsExported(receiver) {
			return
		}
		name = receiver + "." + name
	}
	ps.at(f.Pos(), "exported %s has no comment", name)
}

// receiverName is the name of a method's receiver type.
func receiverName(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch inner := t.(type) {
		case *ast.StarExpr:
			t = inner.X
		case *ast.IndexExpr:
			t = inner.X
		case *ast.IndexListExpr:
			t = inner.X
		case *ast.Ident:
			return inner.Name
		default:
			return ""
		}
	}
}

func (ps *problems) uncommentedGroup(group *ast.GenDecl) {
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			// In a group each type still needs its own sentence.
			if spec.Doc == nil && (group.Doc == nil || group.Lparen != token.NoPos) {
				ps.at(spec.Pos(), "exported type %s has no comment", spec.Name.Name)
			}
			if fields, ok := spec.Type.(*ast.StructType); ok && strings.HasSuffix(spec.Name.Name, "Config") {
				ps.uncommentedFields(spec.Name.Name, fields)
			}
		case *ast.ValueSpec:
			if group.Doc != nil || spec.Doc != nil || spec.Comment != nil {
				continue
			}
			for _, name := range spec.Names {
				if name.IsExported() {
					ps.at(name.Pos(), "exported %s %s has no comment", group.Tok, name.Name)
				}
			}
		}
	}
}

func (ps *problems) uncommentedFields(owner string, fields *ast.StructType) {
	for _, field := range fields.Fields.List {
		for _, name := range field.Names {
			if name.IsExported() && field.Doc == nil && field.Comment == nil {
				ps.at(name.Pos(), "field %s.%s has no comment: give its unit, default and consequence", owner, name.Name)
			}
		}
	}
}
